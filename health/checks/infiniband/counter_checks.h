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

// More than the limit `name` of the check within `per` fails; with `fails_at` that many do.
struct CounterLimit {
  std::string_view name;  // "drain_per_h"
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
// Of a port: all that rules judge, and what it moved.
std::vector<std::string_view> infiniband_counter_files();

// Notes what all counters of the ports say. Not while links come up after boot: the errors of
// their training are no fault.
void note_counters(CounterHistory& history, const SourceFiles& files, const HealthProfile& profile,
                   std::span<const InfinibandPort> ports, std::chrono::milliseconds now);

// Unknown only because a counter was read for the first time, and will be known with the next run.
bool is_first_reading(const HealthFinding& finding);

}  // namespace muster
