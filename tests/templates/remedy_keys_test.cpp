#include "templates/remedy_keys.h"

#include <random>

#include "scheduler/model/remedy_command.h"
#include "templates/cluster_file.h"
#include "templates/command_words.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

using Words = std::vector<std::string>;

ClusterFile read_remedies_of(const std::string& remedies) {
  return read_cluster_file("cluster.yml",
                           "compute:\n  lab:\n    nodes: n[01-04]\n    remedies:\n" + remedies,
                           in_project());
}

NodeFault fault_on(const std::string& device, const std::string& serial = "165") {
  NodeFault fault;
  fault.check = "gpu.xid";
  fault.device = device;
  fault.serial = serial;
  return fault;
}

TEST_CASE("a target's remedies are commands, split into words once") {
  const ClusterFile file = read_remedies_of(R"(      reset: sudo -n nvidia-smi --gpu-reset -i {gpu}
      reboot: [sudo, -n, systemctl, reboot]
      reboot_from_here: ipmitool -H '{node}-bmc' chassis power cycle
)");
  CHECK(printed(file.findings) == "");
  REQUIRE(file.targets.size() == 1);
  const RemedyCommands& commands = file.targets[0].remedies;
  CHECK(commands.reset == Words{"sudo", "-n", "nvidia-smi", "--gpu-reset", "-i", "{gpu}"});
  CHECK(commands.reboot == Words{"sudo", "-n", "systemctl", "reboot"});
  CHECK(commands.reboot_from_here ==
        Words{"ipmitool", "-H", "{node}-bmc", "chassis", "power", "cycle"});
}

TEST_CASE("a target without remedies has none: a person does it") {
  const ClusterFile file = read_cluster_file(
      "cluster.yml", "compute:\n  lab: {nodes: n1}\n  other: {nodes: n2, remedies: }\n",
      in_project());
  CHECK(printed(file.findings) == "");
  CHECK(file.targets.at(0).remedies.none());
  CHECK(file.targets.at(1).remedies.none());
}

TEST_CASE("what is wrong with a remedy is said with its line, and how it is written") {
  struct Row {
    std::string remedies, said;
  };
  const Row rows[] = {
      {"reset: nvidia-smi -i {gpus}", "there is no placeholder {gpus}; did you mean 'gpu'?"},
      {"reset: '{node} --now'", "the program itself cannot be a placeholder"},
      {"reset: nvidia-smi | tee log", "no shell reads this: | would be an argument"},
      {"reset: smi -i {gpu} && true", "no shell reads this: &"},
      {"reset: smi $GPU", "no shell reads this: $"},
      {"reset: smi \"$GPU\"", "no shell reads this: $"},
      {"reset: smi `hostname`", "no shell reads this: `"},
      {"reset: smi 'one", "the quote ' is not closed"},
      {"reset: smi \\", "nothing follows the last \\"},
      {"reset: ''", "expected a command"},
      {"reset: '  '", "expected a command"},
      {"reset: \"''\"", "expected a command"},
      {"reset:", "expected a command"},
      {"reset: []", "expected a command"},
      {"reset: {a: b}", "reset"},
      {"rest: smi", "unknown key 'rest'"},
      {"reboot_from_hear: smi", "did you mean 'reboot_from_here'?"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.remedies);
    const std::string said = printed(read_remedies_of("      " + row.remedies + "\n").findings);
    CHECK_THAT(said, ContainsSubstring(row.said));
    CHECK_THAT(said, ContainsSubstring("cluster.yml:5:"));
  }
  CHECK_THAT(printed(read_remedies_of("      - smi\n").findings), ContainsSubstring("error"));
}

TEST_CASE("a line is split as a shell that knows quotes alone would do it") {
  struct Row {
    std::string line;
    Words words;
  };
  const Row rows[] = {
      {"a b\tc", {"a", "b", "c"}},
      {"  a  ", {"a"}},
      {"a 'b c' \"d e\"", {"a", "b c", "d e"}},
      {"a''b", {"ab"}},
      {"a '' b", {"a", "", "b"}},
      {"a\\ b", {"a b"}},
      {"'a\\b'", {"a\\b"}},
      {"\"a\\\"b\"", {"a\"b"}},
      {"'$x | y'", {"$x | y"}},
      {"a \\; b", {"a", ";", "b"}},
      {"", {}},
      {"{node} x={gpu}", {"{node}", "x={gpu}"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.line);
    const auto words = command_words(row.line);
    REQUIRE(words);
    CHECK(*words == row.words);
  }
}

TEST_CASE("any line is words or an error, and no word is longer than the line") {
  std::mt19937 random(7);
  const std::string letters = "ab{}gpu'\"\\ \t|;$-\x01\xff";
  for (int round = 0; round < 5000; ++round) {
    std::string line;
    for (unsigned i = random() % 40; i > 0; --i) line += letters[random() % letters.size()];
    const auto words = command_words(line);
    if (!words) continue;
    for (const std::string& word : *words) REQUIRE(word.size() <= line.size());
    for (const std::string& word : *words) static_cast<void>(unknown_placeholder(word));
    static_cast<void>(remedy_argv(*words, NodeId{"n1"}, fault_on("gpu3")));
  }
}

TEST_CASE("placeholders are put into words, and stay inside them") {
  const Words words{"reset",     "{node}", "-i",    "{gpu}", "{device}/{serial}",
                    "{finding}", "{}",     "${gpu", "{a b}"};
  CHECK(remedy_argv(words, NodeId{"h03"}, fault_on("gpu3")) ==
        Words{"reset", "h03", "-i", "3", "gpu3/165", "gpu.xid", "{}", "${gpu", "{a b}"});
}

TEST_CASE("a GPU that has no number goes by its address") {
  const Words words{"smi", "-i", "{gpu}"};
  CHECK(remedy_argv(words, NodeId{"h03"}, fault_on("0000:3b:00.0")) ==
        Words{"smi", "-i", "0000:3b:00.0"});
  NodeFault other = fault_on("0000:3b:00.0");
  other.check = "ib.pcie";
  CHECK_FALSE(remedy_argv(words, NodeId{"h03"}, other));
}

TEST_CASE("a value that is missing or odd makes no command") {
  const Words gpu{"smi", "-i", "{gpu}"}, device{"smi", "{device}"}, serial{"smi", "{serial}"};
  const NodeId node{"h03"};
  for (const char* odd : {"0000:3b:00", "0000:3b", "3b.0", ":3b:00.0", "0000:3b:00.9", "a:b:c.x"}) {
    CAPTURE(odd);
    CHECK_FALSE(remedy_argv(gpu, node, fault_on(odd)));
  }
  CHECK_FALSE(remedy_argv(gpu, node, fault_on("")));
  CHECK_FALSE(remedy_argv(gpu, node, fault_on("gpu")));
  CHECK_FALSE(remedy_argv(gpu, node, fault_on("gpu3;x")));
  CHECK_FALSE(remedy_argv(gpu, node, fault_on("mlx5_0")));
  CHECK(remedy_argv(device, node, fault_on("mlx5_0:1")));
  for (const char* odd : {"", "-rf", "a b", "a;b", "$(x)", "a\nb", "../x", "'", "{gpu}", "\xff"}) {
    CAPTURE(odd);
    CHECK_FALSE(remedy_argv(serial, node, fault_on("gpu3", odd)));
  }
  CHECK_FALSE(remedy_argv({"smi", "{node}"}, NodeId{"-x"}, fault_on("gpu3")));
  CHECK(unfit_placeholder(gpu, node, fault_on("mlx5_0")) == "gpu");
  CHECK(unfit_placeholder({"{node}", "{} {a b} {serial}{gpu}"}, node, fault_on("mlx5_0", "")) ==
        "serial");
  CHECK_FALSE(unfit_placeholder(gpu, node, fault_on("gpu3")));
  CHECK_FALSE(unfit_placeholder({"{}", "{gpu"}, node, fault_on("")));
}

}  // namespace
}  // namespace muster
