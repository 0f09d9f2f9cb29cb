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
