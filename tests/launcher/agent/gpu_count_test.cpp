// GPUs as the driver lists them below a /proc that the test makes.
#include "launcher/agent/node_check.h"

#include <filesystem>
#include <fstream>

#include "launcher/agent/keeper/rank_environment.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace fs = std::filesystem;

namespace {

struct Root : FakeRoot {
  fs::path list() const { return path() + "/proc/driver/nvidia/gpus"; }
  void add(const std::string& name) const { fs::create_directories(list() / name); }
  int count() const {
    const auto gpus = count_gpus(path());
    REQUIRE(gpus);
    return *gpus;
  }
};

}  // namespace

TEST_CASE("a machine without the driver, or with it and no GPU, has none") {
  const Root root;
  CHECK(root.count() == 0);
  fs::create_directories(root.list());
  CHECK(root.count() == 0);
}

TEST_CASE("every PCI address in the driver's list is a GPU") {
  const Root root;
  for (const char* bus : {"07", "0f", "47", "4e", "87", "90", "b7", "bd"}) {
    root.add("0000:" + std::string(bus) + ":00.0");
  }
  CHECK(root.count() == 8);
  root.add("10de0000:0A:00.0");  // a longer domain
  CHECK(root.count() == 9);
}

TEST_CASE("what is no PCI address in the driver's list is no GPU") {
  const Root root;
  root.add("0000:07:00.0");
  for (const char* odd : {"power", "0000:07:00", "0000:7:00.0", "000:07:00.0", "0000:07:00.0.old",
                          "0000:gg:00.0", "0000-07-00.0", "123456789:07:00.0"}) {
    root.add(odd);
  }
  std::ofstream(root.list() / "summary") << "1 GPU\n";
  CHECK(root.count() == 1);
}

TEST_CASE("a list that cannot be read is an error that names it") {
  const Root root;
  fs::create_directories(root.list().parent_path());
  std::ofstream(root.list()) << "";  // root may read any directory, and nobody may list a file
  const auto gpus = count_gpus(root.path());
  REQUIRE_FALSE(gpus);
  CHECK_THAT(gpus.error().message, ContainsSubstring(root.list().string()));
  CHECK_THAT(gpus.error().message, ContainsSubstring("Not a directory"));
}

TEST_CASE("a rank does not inherit where its agent looks for GPUs") {
  CHECK(base_environment({{system_root_name, "/x"}, {"HOME", "/root"}}).count("HOME") == 1);
  CHECK(base_environment({{system_root_name, "/x"}}).count(system_root_name) == 0);
}
