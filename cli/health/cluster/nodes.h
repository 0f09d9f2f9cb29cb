// `muster health NODE…` and `--target NAME`: the health of nodes of the cluster, asked from here.
// The controller reaches their agents, which run the checks; each node answers for itself, and what
// only several of them show is added. The same for `muster health active NODE…`.
#pragma once

#include "cli/health/run.h"
#include "cli/terminal/common_options.h"

namespace muster {

int run_health_nodes(const HealthRunOptions& options, const CommonOptions& common);

}  // namespace muster
