#include "health/learn/profile.h"

#include <algorithm>

#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/fake_infiniband.h"

using namespace muster;

namespace {

NodeVersions with_kernel(const std::string& version) {
  return {{"host.versions", {{"kernel", version}}}};
}

const HealthFinding& only_one(const std::map<std::string, std::vector<HealthFinding>>& findings,
                              const std::string& node) {
  REQUIRE(findings.at(node).size() == 1);
  return findings.at(node).front();
}

}  // namespace

TEST_CASE("a node tells the versions of its kernel, firmware and driver") {
  GpuReadings gpus;
  gpus.add("count", {0, "2"});
  gpus.add("driver", {0, "535.161.08"});
  gpus.add("gpu0.vbios", {0, "96.00.74"});
  gpus.add("gpu1.vbios", {0, "96.00.61"});
  gpus.add("gpu1.inforom_image", {3, ""});
  const NodeVersions told = node_versions(healthy_host(), &gpus);
  CHECK(told.at("host.versions").at("kernel") == "5.15.0-1052-azure");
  CHECK_FALSE(told.at("host.versions").contains("muster"));
  CHECK(told.at("host.net").at("mtu eth0") == "1500");
  CHECK(told.at("gpu.versions") ==
        Facts{{"driver", "535.161.08"}, {"vbios", "96.00.61, 96.00.74"}});
  CHECK_FALSE(told.contains("ib.fw"));
  CHECK(node_versions(SourceFiles{}, nullptr).empty());
}

TEST_CASE("the firmware is told by board, of no virtual function") {
  FakeInfiniband node(3);
  for (int n = 0; n < 3; ++n) {
    node.write_device(n, "fw_ver", "28.39." + std::to_string(n) + "\n");
    node.write_device(n, "board_id", "MT_0000000838\n");
  }
  node.write_device(1, "board_id", "MT_0000000001\n");
  node.write_device(2, "device/physfn/vendor", "0x15b3\n");
  CHECK(node_versions(node.files(), nullptr).at("ib.fw") ==
        Facts{{"MT_0000000001", "28.39.1"}, {"MT_0000000838", "28.39.0"}});
}

TEST_CASE("a version that one node has alone fails there, and passes on the others") {
  const auto findings = judge_versions(
      {{"a", with_kernel("6.1")}, {"b", with_kernel("5.15")}, {"c", with_kernel("6.1")}});
  CHECK(only_one(findings, "a").status == CheckStatus::pass);
  const HealthFinding odd = only_one(findings, "b");
  CHECK(odd.check == "host.versions");
  CHECK(odd.status == CheckStatus::fail);
  CHECK(odd.value == "kernel 5.15");
  CHECK(odd.expected == "kernel 6.1");
  CHECK(odd.severity.remedy == Remedy::drain);
  CHECK(odd.fault_class == FaultClass::setup);
}

TEST_CASE("without a majority no node is right, and of two nothing is said") {
  const auto split =
      judge_versions({{"a", with_kernel("1")}, {"b", with_kernel("2")}, {"c", with_kernel("3")}});
  for (const char* node : {"a", "b", "c"}) {
    CHECK(only_one(split, node).status == CheckStatus::unknown);
  }
  CHECK(judge_versions({{"a", with_kernel("1")}, {"b", with_kernel("2")}}).empty());
  // A node that tells nothing is not compared.
  CHECK(judge_versions({{"a", with_kernel("1")}, {"b", with_kernel("2")}, {"c", {}}}).empty());
}

TEST_CASE("a driver that only differs is a warning: it fits its kernel module") {
  const auto driver = [](const char* version) {
    return NodeVersions{{"gpu.versions", {{"driver", version}}}};
  };
  const auto findings =
      judge_versions({{"a", driver("535.1")}, {"b", driver("535.1")}, {"c", driver("550.2")}});
  CHECK(only_one(findings, "c").status == CheckStatus::fail);
  CHECK(only_one(findings, "c").severity == CheckSeverity{});
}
