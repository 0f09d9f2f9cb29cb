// The monitor and the verdict over time, on a complete fake node.
#include <algorithm>

#include "health/monitor/node_health.h"
#include "health/monitor/node_monitor.h"
#include "tests/catch.h"
#include "tests/health/monitor_profile.h"
#include "tests/health/simulated_agent.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr const char* wants_reset_now =
    "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)";
constexpr const char* wants_nothing_now =
    "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)";

struct Watched {
  FakeNode node{FakeKind::h100};
  SimulatedAgent agent{node, monitor_profile(), a_day_up};

  Watched() {
    agent.phase = Phase::periodic;
    agent.situation.is_idle = false;
    agent.job = "job1";
  }
  std::string xid(int code, int gpu = 3, const std::string& rest = "pid=1, name=python") const {
    const std::string address = node.gpu_address(gpu);
    return "NVRM: Xid (PCI:" + address.substr(0, 10) + "): " + std::to_string(code) + ", " + rest;
  }
  void symbols(int port, double count) {
    node.add(
        "/sys/class/infiniband/mlx5_ib" + std::to_string(port) + "/ports/1/counters/symbol_error",
        count);
  }
  std::string symbol_verdict() {
    for (const ActiveFault& fault : agent.verdict().would_drain) {
      if (fault.finding.check == "ib.symbol") return fault.finding.device;
    }
    return {};
  }
};

std::vector<std::string> shown(const std::vector<ActiveFault>& faults) {
  std::vector<std::string> all;
  for (const ActiveFault& one : faults)
    all.push_back(one.finding.check + " " + one.finding.device + " " + text_of(one.severity));
  return all;
}
using Shown = std::vector<std::string>;

}  // namespace

TEST_CASE("a GPU's Xid is told at once, by the GPU's name") {
  Watched node;
  node.agent.run_for(10s);
  node.agent.logs(node.xid(79, 3, "GPU has fallen off the bus."));
  CHECK(shown(node.agent.verdict().drains) == Shown{"gpu.xid gpu3 !reboot>rma"});
  CHECK(node.agent.verdict().drains.front().job == "job1");
  CHECK(node.agent.monitor().take_look_wanted());
  CHECK_FALSE(node.agent.monitor().take_look_wanted());
}

TEST_CASE("the driver's event and the log's line are one Xid") {
  Watched node;
  node.agent.run_for(10s);
  node.agent.logs("NVRM: loading");
  node.agent.tells({3, gpu_event_xid, 48});
  CHECK(node.agent.verdict().drains.empty());  // its line may come
  node.agent.logs(node.xid(48));
  node.agent.run_for(5s);
  REQUIRE(shown(node.agent.verdict().drains) == Shown{"gpu.xid gpu3 !reset>rma"});
  CHECK(node.agent.verdict().drains.front().finding.source == "kmsg");
}

TEST_CASE("an event without a line is told within two seconds") {
  Watched node;
  node.agent.run_for(10s);
  node.agent.logs("NVRM: loading");
  node.agent.tells({5, gpu_event_xid, 48});
  node.agent.run_for(2s);
  CHECK(shown(node.agent.verdict().drains) == Shown{"gpu.xid gpu5 !reset>rma"});
}

TEST_CASE("what the driver wants done comes with its event, once") {
  Watched node;
  node.agent.run_for(10s);
  node.agent.tells({2, gpu_event_recovery_action, 1});
  CHECK(shown(node.agent.verdict().drains) == Shown{"gpu.recovery_action gpu2 !reset"});
  const KernelLine line{
      3,
      true,
      900,
      0,
      node.agent.now().since_boot,
      node.xid(154, 2, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
      ""};
  CHECK(node.agent.monitor().on_kernel_lines({&line, 1}, node.agent.now()).empty());
  // An event that says no more than that something happened calls for a look.
  node.agent.monitor().take_look_wanted();
  node.agent.tells({2, gpu_event_unavailable, 0});
  CHECK(node.agent.monitor().take_look_wanted());
}

TEST_CASE("Xids of ranks that we killed say nothing") {
  Watched node;
  node.agent.run_for(10s);
  node.agent.kills({"gpu3"});
  node.agent.logs(node.xid(43));
  node.agent.logs(node.xid(45));
  CHECK(node.agent.verdict().warnings.empty());
  node.agent.logs(node.xid(43, 4));
  CHECK(shown(node.agent.verdict().warnings) == Shown{"gpu.xid gpu4 warn>drain"});
}

TEST_CASE("before the first readings findings wait for the names of their devices") {
  Watched node;
  node.agent.logged(60s, node.xid(48));
  node.agent.logged(60s, "mlx5_core " + node.node.hca_address(2) + ": device's health compromised");
  CHECK(node.agent.verdict().drains.empty());
  node.agent.run_for(3s);
  CHECK(shown(node.agent.verdict().drains) ==
        Shown{"ib.mlx5_fatal mlx5_ib2 !reboot>rma", "gpu.xid gpu3 !reset>rma"});
}

TEST_CASE("without readings findings go by the address after half a minute") {
  FakeNode node(FakeKind::h100);
  NodeMonitor monitor(monitor_profile(), {});
  CheckMoment now{from_ms(1'750'000'000'000), a_day_up};
  monitor.begin("b", now);
  KernelLine line;
  line.since_boot = now.since_boot;
  line.text = "NVRM: Xid (PCI:0000:5d:00): 48, pid=1";
  CHECK(monitor.on_kernel_lines({&line, 1}, now).empty());
  now.since_boot += 29s;
  CHECK(monitor.tick(now).empty());
  now.since_boot += 1s;
  const auto found = monitor.tick(now);
  REQUIRE(found.size() == 1);
  CHECK(found.front().device == "0000:5d:00.0");
}

TEST_CASE("a GPU that is lost keeps its name and serial") {
  Watched node;
  node.agent.run_for(10s);
  node.node.nvml("gpu3.nvmlDeviceGetHandleByIndex.rc 15");
  node.agent.run_for(120s);
  const auto verdict = node.agent.verdict();
  REQUIRE(shown(verdict.drains) == Shown{"gpu.lost gpu3 !reboot>rma"});
  CHECK(verdict.drains.front().finding.serial == "1652323041111");
  node.agent.logs(node.xid(79));
  CHECK(shown(node.agent.verdict().drains).at(1) == "gpu.xid gpu3 !reboot>rma");
}

TEST_CASE("counters are judged by their growth, also over a restart of the agent") {
  Watched node;
  node.agent.run_for(120s);
  node.symbols(4, 100);
  node.agent.run_for(60s);
  CHECK(node.symbol_verdict().empty());
  node.agent.restarts();
  node.symbols(4, 100);
  node.agent.run_for(60s);
  CHECK(node.symbol_verdict() == "mlx5_ib4:1");
}

TEST_CASE("double-bit errors that grew while the agent was away are seen") {
  Watched node;
  node.agent.run_for(70s);
  node.agent.restarts();
  node.node.nvml("gpu6.field.4 1\ngpu6.field.6 1");
  node.agent.run_for(5s);
  CHECK(shown(node.agent.verdict().drains) == Shown{"gpu.ecc_dbe gpu6 !reset>rma"});
}

TEST_CASE("double-bit errors that came during a look that was cut short are seen by the next") {
  Watched node;
  const auto is_seen = [&] {
    return std::ranges::count(shown(node.agent.verdict().drains), "gpu.ecc_dbe gpu6 !reset>rma");
  };
  node.agent.run_for(70s);
  node.node.nvml("gpu6.field.4 1\ngpu6.field.6 1");
  node.node.nvml_stops_at("gpu6.nvmlDeviceGetFieldValues");
  node.agent.run_for(60s);
  CHECK(is_seen() == 0);
  node.node.nvml_stops_at("");
  node.agent.run_for(60s);
  CHECK(is_seen() == 1);
}

TEST_CASE("a flapping link is counted by the log, though each look finds it up") {
  Watched node;
  node.agent.logged(30s, "mlx5_core " + node.node.hca_address(1) + " ib1: Link down");
  node.agent.run_for(120s);
  for (int flap = 0; flap < 2; ++flap) {
    node.agent.logs("mlx5_core " + node.node.hca_address(1) + " ib1: Link down");
    node.agent.run_for(5s);
    node.agent.logs("mlx5_core " + node.node.hca_address(1) + " ib1: Link up");
    node.agent.run_for(115s);
  }
  CHECK(shown(node.agent.verdict().would_drain) == Shown{"ib.flap mlx5_ib1:1 drain"});
}

TEST_CASE("corrected memory errors are counted by the day") {
  Watched node;
  node.agent.run_for(70s);
  for (int hour = 0; hour < 12; ++hour) {
    node.node.add("/sys/devices/system/edac/mc/mc0/ce_count", 1);
    node.agent.run_for(60s);
    const Shown warned = shown(node.agent.verdict().warnings);
    CHECK((hour >= 9) == (warned == Shown{"host.edac mc0 warn"}));
  }
  node.node.add("/sys/devices/system/edac/mc/mc1/ue_count", 1);
  node.agent.run_for(70s);
  CHECK(shown(node.agent.verdict().drains) == Shown{"host.edac mc1 !reboot>rma"});
  CHECK(node.agent.monitor().memory().edac.size() < 26);
}

TEST_CASE("a node that boots again and again is held") {
  Watched node;
  node.agent.phase = Phase::qualification;
  node.agent.run_for(5s);
  for (int boot = 0; boot < 3; ++boot) {
    node.agent.boots("boot-" + std::to_string(boot));
    node.agent.run_for(5s);
  }
  node.agent.run_for(200s);
  CHECK(shown(node.agent.verdict().would_drain) == Shown{"host.reboots  rma"});
}

TEST_CASE("a boot that is unknown from the last one is no reboot") {
  Watched node;
  node.agent.phase = Phase::qualification;
  for (int boot = 0; boot < 3; ++boot) {
    node.agent.boots("");
    node.agent.run_for(200s);
    CHECK(node.agent.health().latest().at({"host.reboots", ""}).finding.status ==
          CheckStatus::unknown);
    node.agent.boots("boot");
    node.agent.run_for(200s);
  }
  CHECK(node.agent.health().latest().at({"host.reboots", ""}).finding.status == CheckStatus::pass);
  CHECK(shown(node.agent.verdict().would_drain).empty());
}

TEST_CASE("a boot ends what called for one, and what was suspected") {
  Watched node;
  node.agent.run_for(10s);
  node.agent.logs(node.xid(79));
  REQUIRE(node.agent.verdict().is_drained());
  node.agent.boots("another");
  node.agent.run_for(720s);
  CHECK(shown(node.agent.verdict().drains) == Shown{});
}

TEST_CASE("a reset ends what called for one, once it was clean for its time") {
  Watched node;
  node.agent.run_for(10s);
  node.agent.logs(node.xid(46));
  REQUIRE(shown(node.agent.verdict().drains) == Shown{"gpu.xid gpu3 !reset"});
  node.agent.run_for(720s);
  CHECK(node.agent.verdict().is_drained());
  node.agent.resets("gpu3");
  node.agent.run_for(720s);
  CHECK_FALSE(node.agent.verdict().is_drained());
}

TEST_CASE("a GPU that was reset is looked at soon and often, and fit again within two minutes") {
  HealthProfile profile = monitor_profile();
  const bool is_at_once = GENERATE(false, true);
  if (is_at_once) profile.checks["gpu.xid"].limits["clear_after_s"] = 0;
  FakeNode fake{FakeKind::h100};
  SimulatedAgent agent{fake, profile, a_day_up};
  agent.phase = Phase::prolog;
  agent.situation.is_idle = true;
  agent.run_for(70s);
  agent.logs("NVRM: Xid (PCI:" + fake.gpu_address(3).substr(0, 10) + "): 46, pid=1, name=python");
  agent.run_for(20s);
  REQUIRE(shown(agent.verdict().drains) == Shown{"gpu.xid gpu3 !reset"});
  agent.resets("gpu3");
  agent.run_for(is_at_once ? 5s : 100s);
  CHECK(shown(agent.verdict().drains) == Shown{});
}

TEST_CASE("a reset by somebody else is noticed where the driver shows it") {
  enum class Sign { load, log, look, rows };
  for (const Sign sign : {Sign::load, Sign::log, Sign::look, Sign::rows}) {
    INFO("sign " << static_cast<int>(sign));
    Watched node;
    node.agent.run_for(10s);
    node.agent.logs(node.xid(46));
    if (sign == Sign::log) node.agent.logs(node.xid(154, 3, wants_reset_now));
    const bool has_action = sign == Sign::log || sign == Sign::look;
    if (has_action) node.node.nvml("gpu3.field.230 1");
    if (sign == Sign::rows) node.node.nvml("gpu3.remap.pending 1");
    node.agent.run_for(130s);
    REQUIRE(node.agent.verdict().is_drained());
    if (sign == Sign::load) node.agent.logs("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535");
    if (sign == Sign::log) node.agent.logs(node.xid(154, 3, wants_nothing_now));
    if (has_action) node.node.nvml("gpu3.field.230 0");
    if (sign == Sign::rows) node.node.nvml("gpu3.remap.pending 0");
    node.agent.run_for(860s);
    CHECK(shown(node.agent.verdict().drains) == Shown{});
    node.agent.logs(node.xid(46));
    CHECK(shown(node.agent.verdict().drains) == Shown{"gpu.xid gpu3 !reset"});
  }
}

TEST_CASE("a look that wants nothing is no reset of a GPU that fell ill a moment ago") {
  Watched node;
  node.agent.run_for(10s);
  node.agent.logs(node.xid(154, 3, wants_reset_now));
  REQUIRE(node.agent.verdict().is_drained());
  node.agent.run(Phase::qualification);
  for (const auto& [key, latest] : node.agent.health().latest()) CHECK(key.first != "gpu.reset");
  CHECK(node.agent.verdict().is_drained());
}

TEST_CASE("loading the driver does not bring a GPU back that only a reboot can") {
  Watched node;
  node.agent.run_for(10s);
  node.agent.logs(node.xid(79));
  node.agent.logs("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release");
  node.agent.run_for(860s);
  CHECK(node.agent.verdict().is_drained());
}

TEST_CASE("a contained memory error asks for a reset when the job has ended") {
  Watched node;
  node.agent.run_for(10s);
  node.agent.logs(node.xid(94, 6));
  CHECK_FALSE(node.agent.verdict().is_drained());
  CHECK(node.agent.monitor().resets_at_epilog() == Shown{"gpu6"});
  node.agent.ends_job();
  CHECK(node.agent.monitor().resets_at_epilog() == Shown{});
  CHECK(shown(node.agent.verdict().drains) == Shown{"gpu.xid gpu6 reset"});
  node.agent.run_for(720s);
  CHECK(node.agent.verdict().is_drained());
}

TEST_CASE("a switch's error counts for more when the job dies of it") {
  Watched node;
  node.agent.run_for(10s);
  node.agent.logs("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM fault");
  CHECK(shown(node.agent.verdict().drains) == Shown{"gpu.sxid 0000:c1:00.0 drain"});
  node.agent.run_for(5s);
  node.agent.loses_job();
  CHECK(shown(node.agent.verdict().drains) == Shown{"gpu.sxid 0000:c1:00.0 !reset"});
}

TEST_CASE("a port that is down is believed within eight seconds") {
  Watched node;
  node.agent.run_for(20s);
  node.node.set("/sys/class/infiniband/mlx5_ib5/ports/1/state", "1: DOWN\n");
  node.agent.run_for(8s);
  CHECK(shown(node.agent.verdict().drains) == Shown{"ib.state mlx5_ib5:1 !drain"});
}

TEST_CASE("groups are read at their own pace") {
  const auto runs_in_ten_minutes = [](bool is_idle) {
    Watched node;
    node.agent.situation.is_idle = is_idle;
    node.agent.run_for(600s);
    return node.agent.runs();
  };
  // The states' at the first second past 3.8, others together with them.
  CHECK(runs_in_ten_minutes(false) > 600 / 4);
  CHECK(runs_in_ten_minutes(false) <= 160);
  CHECK(runs_in_ten_minutes(true) < 60);

  Watched node;
  node.agent.run_for(2s);
  const SourcesDue due = node.agent.health().pace(node.agent.now(), false);
  CHECK(due.groups == 0);
  CHECK(due.next_in > 1s);
  CHECK(due.next_in < 2s);
  node.agent.health().hurry(static_cast<SourceGroups>(SourceGroup::gpu));
  CHECK(node.agent.health().pace(node.agent.now(), false).groups ==
        static_cast<SourceGroups>(SourceGroup::gpu));
}

TEST_CASE("a device that left half way to a verdict is not looked for each second for ever") {
  Watched node;
  node.agent.run_for(20s);
  node.node.set("/sys/class/infiniband/mlx5_ib5/ports/1/phys_state", "2: Polling\n");
  for (int i = 0; i < 10 && node.agent.health().wanted().empty(); ++i) node.agent.run_for(1s);
  node.node.remove("/sys/class/infiniband/mlx5_ib5");
  node.agent.run_for(200s);
  REQUIRE_FALSE(node.agent.health().wanted().empty());
  const int runs = node.agent.runs();
  node.agent.run_for(60s);
  CHECK(node.agent.runs() - runs < 20);
}

TEST_CASE("the latest answer of each check is kept with its time") {
  Watched node;
  node.agent.run_for(30s);
  node.node.set("/sys/class/infiniband/mlx5_ib5/ports/1/phys_state", "2: Polling\n");
  node.agent.run_for(6s);
  const auto& latest = node.agent.health().latest();
  const LatestFinding& bad = latest.at({"ib.phys", "mlx5_ib5:1"});
  CHECK(bad.finding.status == CheckStatus::fail);
  CHECK(node.agent.now().wall - bad.seen <= 6s);
  CHECK(latest.at({"gpu.temp", "gpu0"}).finding.status == CheckStatus::pass);
  CHECK(node.agent.now().wall - latest.at({"gpu.temp", "gpu0"}).seen >= 30s);
}

TEST_CASE("hardware's own verdicts are enforced without a word of the profile") {
  const HealthProfile none;
  const HealthProfile full = monitor_profile();
  const auto mode = [](const HealthProfile& profile, const char* check) {
    return mode_of(rules_of(profile), check, "");
  };
  for (const char* check : {"gpu.xid", "gpu.sxid", "gpu.fell_off", "gpu.lost", "gpu.ecc_dbe",
                            "gpu.recovery_action", "gpu.sram_unc", "gpu.remap_failure",
                            "gpu.unrepairable", "ib.mlx5_fatal", "host.edac", "host.ro"})
    CHECK(mode(none, check) == CheckMode::enforce);
  for (const char* check :
       {"gpu.throttle", "ib.symbol", "host.mem", "gpu.count", "ib.state", "ib.devices", "ib.rate"})
    CHECK(mode(none, check) == CheckMode::observe);
  for (const char* check : {"gpu.count", "ib.state", "ib.devices", "ib.rate"})
    CHECK(mode(full, check) == CheckMode::enforce);
  CHECK(mode(full, "ib.symbol") == CheckMode::observe);
}
