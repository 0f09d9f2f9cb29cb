// What `muster health` remembers of a host from one run to the next: counters to compare with, how
// often a check failed in a row, the place in the kernel's log. One file of JSON, replaced as a
// whole, readable by its owner alone; runs at the same time do not mix, the last one wins.
//
//   {"version": 1, "host": …, "profile": …, "judged_boot_id": …, "judged_at": µs since boot,
//    "monitor": MonitorMemory, "health": NodeHealthMemory}
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "cli/terminal/common_options.h"
#include "health/fabric/counter_memory.h"
#include "health/monitor/node_health.h"
#include "health/monitor/node_monitor.h"
#include "health/verdict/streaks.h"
#include "scheduler/text/fields.h"

namespace muster {

inline constexpr int state_version = 1;

struct HealthState {
  std::string host;
  std::string profile;  // the shipped one that was chosen last
  // The latest verdict, on a clock that nobody sets.
  std::string judged_boot_id;
  SinceBoot judged_at{};
  MonitorMemory monitor;
  NodeHealthMemory health;

  MUSTER_FIELDS(host, profile, judged_boot_id, judged_at, monitor, health)
};

// In the state directory; a name of the host's own, for home directories are shared. A process of
// root without a HOME, as Slurm starts its hooks, has /var/lib/muster; another one without has
// none: a place that anybody may make is not believed.
// `kind`: of what; its own file.
std::optional<std::filesystem::path> usual_state_file(const std::string& host,
                                                      const std::string& kind = "health");

// What `muster health fabric` remembers from one run to the next: error counters to compare with,
// and how often what failed where. One file of JSON, kept as state.h says.
//
//   {"version": 1, "counts": FabricCounts, "hosts": {HOST: Streaks}}

struct FabricState {
  FabricCounts counts;
  // Of hosts that something is, or was lately, wrong with; "" is what is no host's.
  std::map<std::string, Streaks> hosts;

  MUSTER_FIELDS(counts, hosts)
};

// What cannot be read (it is broken, of another version, or somebody else's) is said, and an empty
// state begins; what cannot be written is said. Nothing as a path: nothing is remembered.
HealthState remembered_health(const std::optional<std::filesystem::path>& path,
                              const std::string& host, const CommonOptions& common);
FabricState remembered_fabric(const std::optional<std::filesystem::path>& path,
                              const CommonOptions& common);
void remember(const std::optional<std::filesystem::path>& path, const HealthState& state,
              const CommonOptions& common);
void remember(const std::optional<std::filesystem::path>& path, const FabricState& state,
              const CommonOptions& common);

}  // namespace muster
