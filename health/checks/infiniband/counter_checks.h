// Judges how the counters of ports grow: ib.saturated, the error counters of `counters`,
// ib.transport of `hw_counters`, ib.traffic. First every reading is noted, then the history is
// judged. Pure, but for the history that is written to.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "health/checks/infiniband/port.h"
#include "health/model/counter_history.h"
#include "health/model/finding.h"

namespace muster {

// More than `usual` within `per` fails; with `fails_at` that many do.
struct CounterLimit {
  std::string_view name;  // in a profile: "drain_per_h"
  double usual = 0;
  std::chrono::seconds per{1};
  CheckSeverity severity;
  bool fails_at = false;
};

// How a file of a port is judged; a check may have several.
struct CounterRule {
  std::string_view check;
  std::string_view file;  // "counters/symbol_error"
  int bits = 16;
  std::array<std::optional<CounterLimit>, 2> limits;
  bool is_optional = false;  // not every driver has it
};
std::span<const CounterRule> infiniband_counter_rules();

// Notes what all counters of the ports say. Not while links come up after boot: the errors of
// their training are no fault.
void note_counters(CounterHistory& history, const SourceFiles& files, const HealthProfile& profile,
                   std::span<const InfinibandPort> ports, std::chrono::milliseconds now);

// Of the latest samples. A count within an hour is not extrapolated from a shorter time.
std::vector<HealthFinding> judge_counters(const SourceFiles& files, const HealthProfile& profile,
                                          std::span<const InfinibandPort> ports,
                                          const CounterHistory& history);

// Unknown only because a counter was read for the first time, and will be known with the next run.
bool is_first_reading(const HealthFinding& finding);

// A hint that a job hangs: `job_runs` on several nodes for so long, and no port moves data. No
// finding before it ran for the window.
std::vector<HealthFinding> judge_traffic(const SourceFiles& files, const HealthProfile& profile,
                                         std::span<const InfinibandPort> ports,
                                         const CounterHistory& history,
                                         std::optional<std::chrono::seconds> job_runs);

}  // namespace muster
