// `muster health --slurm`: what Slurm calls on a node. The health check program drains and undrains
// its own node by scontrol; prolog and epilog answer by their exit code and call nothing.
#pragma once

#include "cli/health/run.h"
#include "cli/terminal/common_options.h"

namespace muster {

// The exit code of the hook: 0, or 1 for a node that is to get no job.
int run_slurm_hook(const HealthRunOptions& options, const CommonOptions& common);

}  // namespace muster
