// What is put into the words of a site's command, and what is not.
#include "scheduler/model/remediation.h"

#include "tests/catch.h"
#include "tests/scheduler/remedy_site.h"

using namespace muster;
using namespace muster::test;

namespace {

using Argv = std::optional<std::vector<std::string>>;

Argv argv_for(const std::string& word, const NodeFault& fault) {
  return remedy_argv({"smi", word}, NodeId{"h03"}, fault);
}

NodeFault fault_of(const std::string& device) {
  NodeFault fault = gpu_fault(from_ms(0));
  fault.device = device;
  return fault;
}

std::string gpu_named_by(const std::string& device) {
  const Argv argv = argv_for("{gpu}", fault_of(device));
  return argv ? argv->back() : "none";
}

}  // namespace

TEST_CASE("a placeholder that there is not is told by its name, the first of several") {
  struct Row {
    const char* word;
    std::optional<std::string> unknown;
  };
  const Row rows[] = {{"", {}},
                      {"smi", {}},
                      {"{node}{gpu}{device}{serial}{finding}", {}},
                      {"{gpus}", "gpus"},
                      {"-i={GPU}", "GPU"},
                      {"{node}-{nodes}{other}", "nodes"},
                      {"{a_b-c}", "a_b-c"},
                      // Braces around something else, or around nothing, are the site's own.
                      {"{} {a b} {1} {gpu {", {}},
                      {"{x{gpus}", "gpus"}};
  for (const Row& row : rows) {
    CAPTURE(row.word);
    CHECK(unknown_placeholder(row.word) == row.unknown);
  }
}

TEST_CASE("each placeholder stands for what the fault or its node is called") {
  const std::vector<std::string> words{"smi", "{node}-bmc", "{gpu}{gpu}", "{device}/{serial}",
                                       "x{finding}x", "{} {a b} {gpu"};
  CHECK(remedy_argv(words, NodeId{"h03"}, fault_of("gpu12")) ==
        std::vector<std::string>{"smi", "h03-bmc", "1212", "gpu12/165", "xgpu.xidx",
                                 "{} {a b} {gpu"});
  CHECK(remedy_argv({"reset", "{node}", "-i", "{gpu}", "{device}/{serial}", "{finding}", "{}",
                     "${gpu", "{a b}"},
                    NodeId{"h03"}, fault_of("gpu3")) ==
        std::vector<std::string>{"reset", "h03", "-i", "3", "gpu3/165", "gpu.xid", "{}", "${gpu",
                                 "{a b}"});
  CHECK_FALSE(argv_for("{gpus}", fault_of("gpu12")));
  CHECK(unfit_placeholder({"{node}", "{} {gpu}{gpus}"}, NodeId{"h03"}, fault_of("gpu1")) == "gpus");
  CHECK_FALSE(unfit_placeholder(words, NodeId{"h03"}, fault_of("gpu12")));
}

TEST_CASE("a GPU goes by its number, or by its address where it has none") {
  for (const char* address : {"0000:3b:00.0", "00000000:3B:00.7", "f:a:9.1"}) {
    CHECK(gpu_named_by(address) == address);
  }
  CHECK(gpu_named_by("gpu0") == "0");
  for (const char* device :
       {"", "gpu", "gpux", "gpu3x", "gpu-1", "gpu3 ", "mlx5_0", "0000", "0000:3b:00", "0000:00.0",
        ":3b:00.0", "0000::00.0", "0000:3b:.0", "0000:3b:00.", "0000:3b:00.8", "0000:3b:00.0.0",
        "0000:3b.0:00", "g000:3b:00.0", "0000:3g:00.0", "0000:3b:0g.0", "0000:3b:00.0;x",
        "0000:3b", "3b.0", "0000:3b:00.9", "a:b:c.x", "gpu3;x"}) {
    CAPTURE(device);
    CHECK(gpu_named_by(device) == "none");
  }
  // Another device's address is not a GPU's.
  NodeFault network = fault_of("0000:3b:00.0");
  network.check = "ib.pcie";
  CHECK_FALSE(argv_for("{gpu}", network));
}

TEST_CASE("a value that could be taken for an option, or is odd, makes no command") {
  const auto with_serial = [](const std::string& serial) {
    NodeFault fault = fault_of("gpu3");
    fault.serial = serial;
    return argv_for("{serial}", fault);
  };
  for (const char* plain : {"165", "a-b", "A.Z_z:9", "0"}) {
    CHECK(with_serial(plain) == std::vector<std::string>{"smi", plain});
  }
  for (const char* odd : {"", "-", "-rf", "a b", "a;b", "$(x)", "a\nb", "a/b", "'", "\xff", "{gpu}",
                          "a@b", "a[", "a`", "a{", "../x"}) {
    CAPTURE(odd);
    CHECK_FALSE(with_serial(odd));
  }
  CHECK(argv_for("{device}", fault_of("mlx5_0:1")));
  CHECK_FALSE(remedy_argv({"smi", "{node}"}, NodeId{"-x"}, fault_of("gpu3")));
}

TEST_CASE("the first placeholder without a fit value is told by its name") {
  const NodeId node{"h03"};
  const std::vector<std::string> gpu{"smi", "-i", "{gpu}"};
  NodeFault nameless = fault_of("mlx5_0");
  CHECK(unfit_placeholder(gpu, node, nameless) == "gpu");
  nameless.serial.clear();
  CHECK(unfit_placeholder({"{node}", "{} {a b} {serial}{gpu}"}, node, nameless) == "serial");
  CHECK_FALSE(unfit_placeholder(gpu, node, fault_of("gpu3")));
  CHECK_FALSE(unfit_placeholder({"{}", "{gpu"}, node, fault_of("")));
}
