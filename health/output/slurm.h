// What muster says to Slurm: commands as argv vectors, and exit codes of its hooks. Runs nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "health/verdict/node_verdict.h"
#include "health/verdict/prolog.h"

namespace muster {

// scontrol reads a name as a list: `n[1-9]` and `ALL` are many nodes. Such a name is no node's.
bool is_slurm_node_name(const std::string& name);

// Nothing: no name of one node, or a reason that is none.
std::optional<std::vector<std::string>> slurm_drain(const std::string& node,
                                                    const std::string& reason);
std::optional<std::vector<std::string>> slurm_undrain(const std::string& node);

struct SlurmNode {
  std::string name;
  bool is_drained = false;
  std::string reason;  // as Slurm has it
};

// What the health check program does about its node; nothing: leave it as it is.
std::optional<std::vector<std::string>> slurm_action(const SlurmNode& node, const Streaks& streaks,
                                                     const CheckRules& rules,
                                                     const NodeVerdict& verdict);

// Of a prolog: 1 drains the node and requeues the job.
inline int slurm_exit_code(const PrologAnswer& answer) {
  return std::holds_alternative<StartJob>(answer) ? 0 : 1;
}
// Of an epilog or a health check: whether a drain stands.
inline int slurm_exit_code(const NodeVerdict& verdict) {
  return verdict.is_drained() ? 1 : 0;
}

}  // namespace muster
