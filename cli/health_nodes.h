// `muster health NODE…` and `--target NAME`: the health of nodes of the cluster, asked from here.
// The controller reaches their agents, which run the checks; each node answers for itself, and what
// only several of them show is added. The same for `muster health active NODE…`.
#pragma once

#include "cli/common_options.h"
#include "cli/health_run.h"

namespace muster {

int run_health_nodes(const HealthRunOptions& options, const CommonOptions& common);

}  // namespace muster
