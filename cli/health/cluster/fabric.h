// `muster health fabric`: the InfiniBand fabric as the host that it is typed on sees it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/health/run.h"
#include "cli/terminal/common_options.h"
#include "scheduler/text/clock.h"

namespace muster {

struct HealthFabricOptions : HealthKept {
  std::string profile;              // a name or a file; empty: none
  std::string golden;               // a file; empty: none
  std::string save_golden;          // write this one, and judge nothing
  std::string hca;                  // "mlx5_0:1"; empty: the tools' own choice
  std::vector<std::string> checks;  // patterns; none: all
  std::optional<Milliseconds> deadline;
  bool quick = false;
};

int run_health_fabric(const HealthFabricOptions& options, const CommonOptions& common);

}  // namespace muster
