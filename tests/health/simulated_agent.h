// An agent's part in health with simulated time: it reads a fake node whenever its health says so,
// hands on the log and the driver's events, and keeps monitor and health over a restart if asked.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "health/monitor/node_health.h"
#include "health/monitor/node_monitor.h"
#include "tests/health/fake_node.h"

namespace muster {

// For a node that was not started just now.
inline constexpr SinceBoot a_day_up = std::chrono::hours(24);

class SimulatedAgent {
 public:
  SimulatedAgent(FakeNode& node, const HealthProfile& profile, SinceBoot up);

  // ---- time goes on, second by second, and with it what is due
  void run_for(std::chrono::seconds time);
  // One run of its own, whatever is due.
  std::vector<HealthFinding> run(Phase phase, SourceGroups groups = all_source_groups);

  // ---- what happens on the node
  void logs(const std::string& text, const std::string& device = {});
  // Written so long ago.
  void logged(std::chrono::seconds ago, const std::string& text);
  // What stands in the log when the agent comes: all of it is read at once.
  using LoggedBefore = std::pair<std::chrono::seconds, std::string>;
  void had_logged(const std::vector<LoggedBefore>& before);
  void tells(const GpuEvent& event);
  void kills(const std::vector<std::string>& gpus);
  void resets(const std::string& gpu);
  void loses_job();
  // Once the node is left alone after that.
  void ends_job();
  // The host starts anew, and the agent with what it had saved.
  void boots(const std::string& boot_id);
  // The agent alone.
  void restarts();

  NodeMonitor& monitor() { return *monitor_; }
  NodeHealth& health() { return *health_; }
  NodeVerdict verdict() { return health_->verdict(now_.wall); }
  const CheckMoment& now() const { return now_; }
  int runs() const { return runs_; }
  // How often something was said: between two equal ones nothing has changed.
  int said() const { return said_; }

  CheckSituation situation;  // phase and groups are set for each run
  Phase phase = Phase::qualification;
  std::string job;

 private:
  void take(const std::vector<HealthFinding>& findings, SourceGroups groups = 0);
  void pass(std::chrono::milliseconds time);
  void live();
  KernelLine line_of(SinceBoot at, const std::string& text, const std::string& device);

  FakeNode& node_;
  HealthProfile profile_;
  CheckMoment now_;
  std::unique_ptr<NodeMonitor> monitor_;
  std::unique_ptr<NodeHealth> health_;
  std::uint64_t sequence_ = 100;
  int runs_ = 0;
  int said_ = 0;
};

}  // namespace muster
