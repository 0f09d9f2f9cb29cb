// `muster health active`: this host measured under load, and judged by the floors of its profile.
// Says beforehand how long that takes, and refuses a host that is not idle. What fails stands in
// what `muster health` remembers, until it passed often enough.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/health/result.h"
#include "cli/health/run.h"
#include "cli/health/sources.h"
#include "cli/health/state.h"
#include "cli/terminal/common_options.h"
#include "health/benchmark/plan.h"
#include "health/model/profile.h"
#include "health/monitor/check_run.h"

namespace muster {

// With what it means. Ends the verb where it makes no sense.
BenchmarksAsked checked_benchmarks(BenchmarksAsked asked);

// Before a job processors may be busy: that a floor was missed then proves nothing later.
std::optional<std::filesystem::path> active_state_file(const HealthRunOptions& options,
                                                       const std::string& host);

int run_health_active(const HealthRunOptions& options, const CommonOptions& common);

// Forced: what is busy is told, and proves nothing.
struct MeasureWanted : BenchmarksAsked {
  bool learns = false;                    // all that the node can run, floor or none
  std::vector<std::string> program = {};  // empty: muster agent probe
};

// What a person at that host can do about it.
inline constexpr std::string_view force_hint = "; --force measures all the same";

// Empty, or what is wrong with the names of probes.
std::string misnamed_probe(const std::vector<std::string>& only);

// Ends the verb where that is refused.
ProbeFigures measure_node(HealthSources& sources, const HealthProfile& profile,
                          const MeasureWanted& wanted, const CommonOptions& common);

// What the figures make of the host: findings, and a verdict with what is remembered. Pure.

struct ActiveMoment {
  RunFacts run;
  CheckMoment at;
  Milliseconds took{0};
};

// `state` is what is remembered of the host, and is changed.
HostHealth judge_figures(const ProbeFigures& figures, const HealthProfile& profile,
                         const ActiveMoment& moment, HealthState& state);

}  // namespace muster
