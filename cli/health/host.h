// A look at a node: all its sources read, judged with what is remembered, and what that makes of
// the node. Blocks until it is over, which the limits of its sources bound.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/health/result.h"
#include "cli/health/sources.h"
#include "cli/health/state.h"
#include "health/monitor/node_health.h"
#include "health/monitor/node_monitor.h"

namespace muster {

struct LookOptions {
  HealthProfile profile;
  Phase phase = Phase::on_demand;
  std::vector<std::string> checks;  // patterns; none: all
  std::set<std::int64_t> ended_uids;
  bool is_idle = false;       // no job of anybody runs here
  bool beside_ranks = false;  // only what may run beside them is done: told in the result
  bool may_pause = true;      // a second of time to look again at what one look cannot tell
};

inline constexpr std::string_view phase_names[] = {"prolog",     "periodic",  "epilog",
                                                   "on-failure", "on-demand", "qualification"};
std::string_view name_of(Phase phase);
// Letter case and `_` for `-` do not matter.
std::optional<Phase> phase_of(std::string_view name);

// The findings of one run of the monitor's checks, and how long the reads of each took.
struct RunFindings {
  std::vector<HealthFinding> findings;
  std::vector<double> took_ms;
  int first_readings = 0;  // left out: counters that have nothing to be compared with yet
};
RunFindings run_checks(NodeMonitor& monitor, HealthSources& sources,
                       const CheckSituation& situation);

class NodeLook {
 public:
  // `sources` outlives it.
  NodeLook(HealthSources& sources, LookOptions options, HealthState saved);

  void look();
  NodeVerdict verdict() const;
  // How long ago the verdict was made, before the first look: in an earlier run. Nothing: never, or
  // before a boot.
  std::optional<Milliseconds> verdict_age() const;
  // Whether one more look decides about something that counts.
  bool is_open() const;
  int looks() const { return looks_; }

  HostHealth result() const;
  HealthState state() const;
  const CheckRules& rules() const { return health_.rules(); }
  Streaks& streaks() { return health_.streaks(); }

 private:
  CheckSituation situation() const;
  void take(std::vector<HealthFinding> findings, const FindingsTaken& taken);
  RunFindings latest() const;
  void show_fault(HostHealth& host, const ActiveFault& fault, const RunFacts& run) const;

  HealthSources& sources_;
  LookOptions options_;
  NodeMonitor monitor_;
  NodeHealth health_;
  std::string saved_profile_;
  std::string judged_boot_id_;
  SinceBoot judged_at_{};
  std::vector<HealthFinding> events_;  // of the log and the driver, since the beginning
  RunFindings run_;                    // of the last look
  SteadyTime began_ = std::chrono::steady_clock::now();
  int looks_ = 0;
};

}  // namespace muster
