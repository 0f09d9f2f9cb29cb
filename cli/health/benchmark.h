// `muster health active`: this host measured under load, and judged by the floors of its profile.
// What fails stands in what `muster health` remembers, until it passed often enough. With nodes of
// the cluster they are measured, and compared with each other.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/health/run.h"
#include "cli/terminal/common_options.h"

namespace muster {

struct HealthActiveOptions : HealthAsked {
  std::vector<std::string> only;  // probes; none: those that the profile has a floor for
  std::string disk;               // a directory; empty: no disk is written
  std::optional<std::int64_t> burn_minutes;  // of a full load that is asked for
  bool force = false;             // idle or not
  bool gate = false;              // a job is about to start here
};

// Where it is remembered what was found; nothing: nowhere. Before a job processors may be busy:
// that a floor was missed then proves nothing later.
std::optional<std::filesystem::path> active_state_file(const HealthActiveOptions& options,
                                                       const std::string& host);

int run_health_active(const HealthActiveOptions& options, const CommonOptions& common);

}  // namespace muster
