// `muster health --slurm`: what Slurm calls on a node. The health check program drains and undrains
// its own node by scontrol; prolog and epilog answer by their exit code and call nothing.
#pragma once

#include <string_view>

#include "cli/health/run.h"
#include "cli/terminal/common_options.h"
#include "health/output/finding_report.h"
#include "scheduler/model/result.h"

namespace muster {

// The exit code of the hook: 0, or 1 for a node that must not get jobs.
int run_slurm_hook(const HealthRunOptions& options, const CommonOptions& common);

// A node as Slurm shows it: the line of `scontrol show node -o NAME`. Pure.

// An Error: it is no such line, or of another node than `name`.
Result<SlurmNode> parse_slurm_node(std::string_view text, std::string_view name);

}  // namespace muster
