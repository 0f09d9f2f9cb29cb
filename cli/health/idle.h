// Whether this host is idle: a measurement of one that is not tells nothing of it, and slows what
// runs there. Reads /proc, the environments of processes, and what GPUs say of theirs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/health/sources.h"

namespace muster {

// The first line of /proc/stat, and how many processors there are.
struct ProcessorTime {
  std::uint64_t busy_ticks = 0;
  std::uint64_t all_ticks = 0;
  int processors = 0;
};
std::optional<ProcessorTime> processor_time(std::string_view stat);
// How many processors were busy between two moments; 0 when no time went by.
double busy_processors(const ProcessorTime& before, const ProcessorTime& after);
// More than a service or two need.
bool is_busy(double busy, int processors);

// A rank of muster, or a process on a GPU. Empty: nobody, or nothing tells.
std::string who_runs_here(HealthSources& sources);

// Empty: it is idle, or nothing tells otherwise. "a rank of job j4 runs here (process 4711)". Takes
// a second.
std::string why_not_idle(HealthSources& sources);

}  // namespace muster
