// What the monitor and the verdict remember, through the codec of the agent's state.
#include <algorithm>

#include "health/model/check.h"
#include "health/monitor/node_health.h"
#include "health/monitor/node_monitor.h"
#include "launcher/wire/json_fields.h"
#include "tests/catch.h"
#include "tests/health/monitor_profile.h"
#include "tests/health/simulated_agent.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

template <class T>
T through_json(const T& value) {
  Json json;
  write_json(json, value);
  T back;
  read_json(Json::parse(json.dump()), back);
  return back;
}

std::vector<HealthFinding> failures(const std::vector<HealthFinding>& findings) {
  std::vector<HealthFinding> all;
  std::ranges::copy_if(findings, std::back_inserter(all),
                       [](const HealthFinding& one) { return one.status == CheckStatus::fail; });
  return all;
}

std::vector<std::string> drains_of(const NodeVerdict& verdict) {
  std::vector<std::string> all;
  for (const ActiveFault& one : verdict.drains)
    all.push_back(one.finding.check + " " + one.finding.device + " " + text_of(one.severity));
  return all;
}

}  // namespace

TEST_CASE("what is remembered survives a codec, and stays small") {
  FakeNode fake(FakeKind::h100);
  SimulatedAgent agent(fake, monitor_profile(), 24h);
  agent.phase = Phase::periodic;
  agent.situation.is_idle = false;
  agent.run_for(3'900s);
  const std::string xid = "NVRM: Xid (PCI:0000:5d:00): ";
  agent.logs(xid + "48, pid=1, name=python");
  agent.logs("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM fault");
  agent.logs(xid + "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot)");
  agent.logs("mlx5_core " + fake.hca_address(1) + " ib1: Link down");
  const MonitorMemory memory = agent.monitor().memory();
  const MonitorMemory back = through_json(memory);
  CHECK(back.kernel == memory.kernel);
  CHECK(back.counters == memory.counters);
  CHECK(back.flaps == memory.flaps);
  CHECK(back.gpu_names == memory.gpu_names);
  CHECK(back.look_readings == memory.look_readings);
  CHECK(back.edac.size() == memory.edac.size());
  CHECK(back.boots.size() == 1);
  Json json;
  write_json(json, memory);
  CHECK(json.dump().size() < 700'000);

  const NodeHealthMemory faults = through_json(agent.health().memory());
  NodeHealth restored(monitor_profile(), faults);
  restored.begin(fake.boot_id(), agent.now());
  CHECK(drains_of(restored.verdict(agent.now().wall)) == drains_of(agent.verdict()));
  NodeMonitor monitor(monitor_profile(), {}, back);
  monitor.begin(fake.boot_id(), agent.now());
  CHECK(failures(monitor.standing({}, agent.now())).size() ==
        failures(agent.monitor().standing({}, agent.now())).size());
}

TEST_CASE("a fault counts while the profile has its check judged, and stays known") {
  FakeNode fake(FakeKind::h100);
  HealthProfile judging = monitor_profile();
  judging.checks["host.*"].mode = CheckMode::enforce;
  SimulatedAgent agent(fake, judging, a_day_up);
  fake.set("/sys/devices/system/cpu/online", "0-1\n");
  fake.set("/sys/class/infiniband/mlx5_ib3/ports/1/state", "1: DOWN\n");
  agent.run_for(200s);
  const auto drains_with = [&](const HealthProfile& profile) {
    return drains_of(NodeHealth(profile, agent.health().memory()).verdict(agent.now().wall));
  };
  const std::vector<std::string> both{"ib.state mlx5_ib3:1 !drain", "host.cpu  drain"};
  CHECK(drains_with(judging) == both);

  HealthProfile other = judging;
  other.host.cpus.reset();
  other.ib.ports = {"mlx5_ib[0-2]:1", "mlx5_ib4"};
  CHECK(drains_with(other).empty());
  other.host.cpus = 2;  // another limit: it has to pass
  other.ib.ports = {"mlx5_ib3"};
  CHECK(drains_with(other) == both);
  other.host.cpus.reset();
  other.required.emplace_back("host.cpu");
  CHECK(drains_with(other) == both);

  fake.set_error("/sys/devices/system/cpu/online", "Input/output error");
  agent.restarts();
  agent.run_for(200s);
  CHECK(agent.verdict().drains.size() == 2);
}

TEST_CASE("what the kernel's log told counts with any profile") {
  FakeNode fake(FakeKind::h100);
  SimulatedAgent agent(fake, monitor_profile(), a_day_up);
  agent.run_for(60s);
  agent.logs("NVRM: Xid (PCI:0000:5d:00): 79, pid=1, GPU has fallen off the bus.");
  const NodeHealth without({}, agent.health().memory());
  CHECK(drains_of(without.verdict(agent.now().wall)) == drains_of(agent.verdict()));
  CHECK(without.verdict(agent.now().wall).is_drained());
}
