#include <algorithm>
#include <random>

#include "health/checks/infiniband/infiniband_checks.h"
#include "health/model/check.h"
#include "tests/catch.h"
#include "tests/health/fake_infiniband.h"
#include "tests/health/status_words.h"

using namespace muster;
using namespace muster::status_words;

namespace {

std::vector<HealthFinding> judged(const FakeInfiniband& node,
                                  const HealthProfile& profile = FakeInfiniband::profile()) {
  const CounterHistory counters;
  const LinkFlaps flaps;
  InfinibandFacts facts{node.files(), counters, flaps};
  facts.has_counters = false;
  auto findings = judge_infiniband(facts, profile);
  std::erase_if(findings, [](const HealthFinding& one) { return one.check == "ib.flap"; });
  return findings;
}

HealthFinding the(const std::vector<HealthFinding>& findings, std::string_view check,
                  std::string_view device) {
  const auto found = std::ranges::find_if(findings, [&](const HealthFinding& one) {
    return one.check == check && one.device == device;
  });
  INFO(check << " " << device);
  REQUIRE(found != findings.end());
  return *found;
}

std::size_t count_of(const std::vector<HealthFinding>& findings, CheckStatus status) {
  return static_cast<std::size_t>(std::ranges::count(findings, status, &HealthFinding::status));
}

}  // namespace

TEST_CASE("all links and devices of a healthy node pass") {
  const auto findings = judged(FakeInfiniband());
  CHECK(findings.size() == 1 + 8 * (7 + 3 + 1));
  CHECK(count_of(findings, pass) == findings.size());
  const HealthFinding state = the(findings, "ib.state", "mlx5_3:1");
  CHECK(state.value == "4: ACTIVE");
  CHECK(state.serial == "b83f:d203:00c5:0004");
  CHECK(state.source == "/sys/class/infiniband/mlx5_3/ports/1/state");
}

TEST_CASE("what a file of a port says decides its check") {
  struct Row {
    const char* check;
    const char* leaf;
    const char* text;
    CheckStatus status;
    const char* severity;
  };
  const Row rows[] = {
      {"ib.state", "state", "1: DOWN", fail, "!drain"},
      {"ib.state", "state", "0: NOP", fail, "!drain"},
      {"ib.state", "state", "2: INIT", fail, "warn"},
      {"ib.state", "state", "3: ARMED", fail, "warn"},
      {"ib.state", "state", "5: ACTIVE_DEFER", fail, "warn"},
      {"ib.state", "state", "4: DOWN", unsure, ""},
      {"ib.state", "state", "6: NEW", unsure, ""},
      {"ib.state", "state", "ACTIVE", unsure, ""},
      {"ib.state", "state", "", unsure, ""},
      {"ib.phys", "phys_state", "2: Polling", fail, "drain"},
      {"ib.phys", "phys_state", "3: Disabled", fail, "drain"},
      {"ib.phys", "phys_state", "1: Sleep", fail, "warn"},
      {"ib.phys", "phys_state", "4: PortConfigurationTraining", fail, "warn"},
      {"ib.phys", "phys_state", "6: LinkErrorRecovery", fail, "warn"},
      {"ib.phys", "phys_state", "0: <unknown>", unsure, ""},
      {"ib.phys", "phys_state", "\x7f\x45\x4c\x46", unsure, ""},
      {"ib.rate", "rate", "800 Gb/sec (4X XDR)", pass, ""},
      {"ib.rate", "rate", "200 Gb/sec (4X HDR)", fail, "drain"},
      {"ib.rate", "rate", "100 Gb/sec (1X NDR)", fail, "drain"},
      {"ib.rate", "rate", "400 Gb/sec (2X XDR)", fail, "drain"},
      {"ib.rate", "rate", "400 Gb/sec (4X ", unsure, ""},
      {"ib.link_layer", "link_layer", "Ethernet", fail, "drain"},
      {"ib.link_layer", "link_layer", "Unknown", unsure, ""},
      {"ib.lid", "lid", "0x0", fail, "warn"},
      {"ib.lid", "sm_lid", "0x0", fail, "warn"},
      {"ib.lid", "sm_lid", "none", unsure, ""},
      {"ib.pkey", "pkeys/0", "0x7fff", fail, "drain"},
      {"ib.pkey", "pkeys/0", "0x0000", fail, "drain"},
      {"ib.pkey", "pkeys/0", "0x8000", fail, "drain"},
      {"ib.pkey", "pkeys/1", "0x8012", pass, ""},
      {"ib.gid", "gids/0", "fe80:0000:0000:0000:0000:0000:0000:0000", fail, "drain"},
      {"ib.gid", "gids/0", "0000:0000:0000:0000:0000:0000:0000:0000", fail, "drain"},
      {"ib.gid", "gids/0", "::", unsure, ""},
  };
  for (const Row& row : rows) {
    INFO(row.leaf << " says " << row.text);
    FakeInfiniband node;
    node.write_port(3, row.leaf, std::string(row.text) + "\n");
    const auto findings = judged(node);
    const HealthFinding finding = the(findings, row.check, "mlx5_3:1");
    CHECK(finding.status == row.status);
    if (row.status == fail) CHECK(text_of(finding.severity) == row.severity);
    if (row.status == unsure) CHECK_FALSE(finding.evidence.empty());
    CHECK(finding.fault_class == find_check(row.check)->fault);
    // Of a link that is not up the rate is unknown as well.
    CHECK(count_of(findings, pass) >= findings.size() - 2);
  }
}

TEST_CASE("what cannot be read is unknown, with its path and the reason") {
  const std::pair<const char*, const char*> rows[] = {
      {"ib.state", "state"}, {"ib.phys", "phys_state"},       {"ib.rate", "rate"},
      {"ib.lid", "lid"},     {"ib.link_layer", "link_layer"}, {"ib.gid", "gids/0"}};
  for (const auto& [check, leaf] : rows) {
    FakeInfiniband node;
    node.break_file(FakeInfiniband::port_path(3, leaf), "no answer within 5 s");
    const HealthFinding finding = the(judged(node), check, "mlx5_3:1");
    INFO(check);
    CHECK(finding.status == unsure);
    CHECK(finding.evidence.front() ==
          FakeInfiniband::port_path(3, leaf) + ": no answer within 5 s");
  }
}

TEST_CASE("a link that is down tells nothing by its rate") {
  FakeInfiniband node;
  node.link_down(3);
  const auto findings = judged(node);
  CHECK(the(findings, "ib.state", "mlx5_3:1").status == fail);
  CHECK(the(findings, "ib.phys", "mlx5_3:1").status == fail);
  CHECK(the(findings, "ib.rate", "mlx5_3:1").status == unsure);
  CHECK(the(findings, "ib.netdev", "mlx5_3").status == fail);
  CHECK(the(findings, "ib.state", "mlx5_3:1").fault_class == FaultClass::node);
}

TEST_CASE("no failure is said of a link while it comes up after boot") {
  FakeInfiniband node;
  node.link_down(3);
  node.booted_ago(299);
  const auto early = judged(node);
  CHECK(count_of(early, fail) == 0);
  const HealthFinding state = the(early, "ib.state", "mlx5_3:1");
  CHECK(state.status == unsure);
  CHECK(state.evidence.back() == "booted 299 s ago: links are judged from 300 s on");
  CHECK(the(early, "ib.state", "mlx5_2:1").status == pass);
  node.booted_ago(300);
  CHECK(the(judged(node), "ib.state", "mlx5_3:1").status == fail);
  node.booted_ago(120);
  HealthProfile profile = FakeInfiniband::profile();
  profile.checks["ib.*"].limits["boot_grace_s"] = 60;
  CHECK(the(judged(node, profile), "ib.state", "mlx5_3:1").status == fail);
}

TEST_CASE("ports that all wait in INIT are the subnet manager's fault") {
  FakeInfiniband node;
  for (int n = 0; n < 8; ++n) node.wait_for_subnet_manager(n);
  for (const HealthFinding& finding : judged(node)) {
    if (finding.check != "ib.state") continue;
    CHECK(finding.status == fail);
    CHECK(finding.fault_class == FaultClass::infra);
    CHECK(text_of(finding.severity) == "warn");
  }
  node.write_port(7, "state", "4: ACTIVE\n");
  CHECK(the(judged(node), "ib.state", "mlx5_3:1").fault_class == FaultClass::node);
}

TEST_CASE("what the profile does not say is not judged") {
  HealthProfile profile = FakeInfiniband::profile();
  profile.ib.rate_gbps.reset();
  profile.ib.width.reset();
  for (const HealthFinding& finding : judged(FakeInfiniband(), profile))
    CHECK(finding.check != "ib.rate");
  profile.ib.ports.clear();
  CHECK(judged(FakeInfiniband(), profile).empty());
}

TEST_CASE("the partition that the profile names must be there with full membership") {
  HealthProfile profile = FakeInfiniband::profile();
  profile.checks["ib.pkey"].limits["partition"] = 0x8012;
  FakeInfiniband node;
  CHECK(the(judged(node, profile), "ib.pkey", "mlx5_3:1").status == fail);
  node.write_port(3, "pkeys/2", "0x8012\n");
  CHECK(the(judged(node, profile), "ib.pkey", "mlx5_3:1").status == pass);
  node.write_port(3, "pkeys/2", "0x0012\n");
  CHECK(the(judged(node, profile), "ib.pkey", "mlx5_3:1").status == fail);
}

TEST_CASE("all ports that the profile names are there") {
  FakeInfiniband node;
  CHECK(the(judged(node), "ib.devices", "").value == "8");
  node.remove_device(2);
  const HealthFinding missing = the(judged(node), "ib.devices", "");
  CHECK(missing.status == fail);
  CHECK(text_of(missing.severity) == "!reboot>rma");
  CHECK(missing.value == "7");
  CHECK(missing.expected == "8");
  CHECK(missing.evidence == std::vector<std::string>{"mlx5_2:1 is missing"});
  HealthProfile profile = FakeInfiniband::profile();
  profile.exclude = {{"ib.*", "mlx5_2", "pulled"}};
  CHECK(the(judged(node, profile), "ib.devices", "").status == pass);
}

TEST_CASE("a virtual function does not stand for a port that is missing") {
  FakeInfiniband node;
  node.make_virtual_function(2);
  CHECK(the(judged(node), "ib.devices", "").status == fail);
}

TEST_CASE("a pattern with a star wants a port at least") {
  HealthProfile profile = FakeInfiniband::profile();
  profile.ib.ports = {"mlx5_*:1"};
  CHECK(the(judged(FakeInfiniband(), profile), "ib.devices", "").value == "8");
  CHECK(the(judged(FakeInfiniband(0), profile), "ib.devices", "").status == fail);
}

TEST_CASE("a node of which nothing could be read is unknown, not without devices") {
  const HealthProfile profile = FakeInfiniband::profile();
  const CounterHistory counters;
  const LinkFlaps flaps;
  const SourceFiles unread;
  CHECK(judge_infiniband({unread, counters, flaps}, profile).front().status == unsure);
  FakeInfiniband node(0);
  node.break_file("/sys/class/infiniband", "Input/output error");
  CHECK(the(judged(node), "ib.devices", "").status == unsure);
}

TEST_CASE("the verbs node of a device opens") {
  FakeInfiniband node;
  const std::string path = "/dev/infiniband/uverbs3";
  node.break_file(path, "Permission denied");
  HealthFinding finding = the(judged(node), "ib.chardev", "mlx5_3");
  CHECK(finding.status == fail);
  CHECK(finding.fault_class == FaultClass::setup);
  node.break_file(path, "No such file or directory", true);
  CHECK(the(judged(node), "ib.chardev", "mlx5_3").status == fail);
  node.break_file(path, "no answer within 5 s");
  CHECK(the(judged(node), "ib.chardev", "mlx5_3").status == unsure);
  node.write("/sys/class/infiniband_verbs/uverbs4/ibdev", "other\n");
  CHECK(the(judged(node), "ib.chardev", "mlx5_4").status == fail);
}

TEST_CASE("an adapter whose firmware is not that of the others of its board is told") {
  FakeInfiniband node;
  CHECK(the(judged(node), "ib.fw", "mlx5_3").status == pass);
  node.write(FakeInfiniband::device_path(3, "fw_ver"), "28.36.1010\n");
  const HealthFinding finding = the(judged(node), "ib.fw", "mlx5_3");
  CHECK(finding.status == fail);
  CHECK(finding.value == "28.36.1010");
  CHECK(finding.expected == "28.39.1002");
  CHECK(finding.severity == only_warn);
  CHECK(the(judged(node), "ib.fw", "mlx5_4").status == pass);
  // Another board has a firmware of its own, and of two that differ either may be right.
  node.write(FakeInfiniband::device_path(3, "board_id"), "MT_0000000223\n");
  const auto told = [&] {
    return std::ranges::any_of(judged(node), [](const HealthFinding& one) {
      return one.check == "ib.fw" && (one.status == fail || one.device == "mlx5_3");
    });
  };
  CHECK_FALSE(told());
  node.write(FakeInfiniband::device_path(4, "board_id"), "MT_0000000223\n");
  CHECK_FALSE(told());
}

TEST_CASE("a device has all of its PCIe link") {
  struct Row {
    const char* leaf;
    const char* text;
    CheckStatus status;
    const char* value;
  };
  const Row rows[] = {{"current_link_width", "8", fail, "8"},
                      {"current_link_speed", "16.0 GT/s PCIe", fail, "16"},
                      {"max_link_speed", "16.0 GT/s PCIe", pass, "16"},
                      {"current_link_speed", "Unknown", unsure, ""},
                      {"max_link_width", "0", unsure, ""},
                      {"current_link_width", "255x", unsure, ""}};
  for (const Row& row : rows) {
    INFO(row.leaf << " says " << row.text);
    FakeInfiniband node;
    node.write_device(3, std::string("device/") + row.leaf, row.text);
    const HealthFinding finding = the(judged(node), "ib.pcie", "mlx5_3");
    CHECK(finding.status == row.status);
    if (row.status == fail) CHECK(finding.value == row.value);
  }
  FakeInfiniband narrow;
  narrow.write_device(3, "device/current_link_width", "8\n");
  HealthProfile profile = FakeInfiniband::profile();
  profile.checks["ib.pcie"].limits["width"] = 8;
  CHECK(the(judged(narrow, profile), "ib.pcie", "mlx5_3").status == pass);
}

TEST_CASE("a network interface of a device is up") {
  FakeInfiniband node;
  node.write_device(3, "device/net/ib3/operstate", "unknown\n");
  CHECK(the(judged(node), "ib.netdev", "mlx5_3").status == unsure);
  node.write_device(3, "device/net/ib3/operstate", "lowerlayerdown\n");
  const HealthFinding down = the(judged(node), "ib.netdev", "mlx5_3");
  CHECK(down.status == fail);
  CHECK(down.evidence.front() == "ib3 carrier_changes 2");
}

TEST_CASE("the versions of devices are told, not judged") {
  const FakeInfiniband node;
  const auto ports = judged_ports(node.files(), FakeInfiniband::profile());
  const auto versions = infiniband_versions(node.files(), ports);
  REQUIRE(versions.size() == 8);
  CHECK(versions[3] == InfinibandVersions{"mlx5_3", "28.39.1002", "MT_0000000838", "MT4129"});
}

TEST_CASE("whatever files say, findings have a check and a reason when unknown") {
  std::mt19937_64 random(11);
  const FakeInfiniband healthy(2);
  std::vector<std::string> paths;
  for (const auto& [path, reading] : healthy.files().all()) paths.push_back(path);
  HealthProfile profile = FakeInfiniband::profile();
  profile.ib.ports = {"mlx5_[01]:1"};
  for (int n = 0; n < 300; ++n) {
    FakeInfiniband node = healthy;
    for (int times = 0; times < 8; ++times) {
      std::string text(random() % 40, '\0');
      for (char& c : text) c = static_cast<char>(random());
      node.write(paths[random() % paths.size()], text);
    }
    for (const HealthFinding& finding : judged(node, profile)) {
      REQUIRE(find_check(finding.check) != nullptr);
      if (finding.status == unsure) REQUIRE_FALSE(finding.evidence.empty());
    }
  }
}
