#include "health/output/slurm.h"

#include "scheduler/text/text.h"

namespace muster {

bool is_slurm_node_name(const std::string& name) {
  return is_word_of(name, "._-") && name.front() != '-' && lower_case(name) != "all";
}

std::optional<std::vector<std::string>> slurm_drain(const std::string& node,
                                                    const std::string& reason) {
  if (!is_slurm_node_name(node) || !parse_drain_reason(reason)) return std::nullopt;
  return std::vector<std::string>{"scontrol", "update", "NodeName=" + node, "State=DRAIN",
                                  "Reason=" + reason};
}

std::optional<std::vector<std::string>> slurm_undrain(const std::string& node) {
  if (!is_slurm_node_name(node)) return std::nullopt;
  // RESUME would also bring back a node that is down.
  return std::vector<std::string>{"scontrol", "update", "NodeName=" + node, "State=UNDRAIN"};
}

std::optional<std::vector<std::string>> slurm_action(const SlurmNode& node, const Streaks& streaks,
                                                     const CheckRules& rules,
                                                     const NodeVerdict& verdict) {
  if (verdict.is_drained()) {
    const auto reason = reason_to_set(node.is_drained ? node.reason : std::string{}, verdict);
    return reason ? slurm_drain(node.name, *reason) : std::nullopt;
  }
  if (!node.is_drained || why_drain_stays(node.reason, streaks, rules, verdict)) {
    return std::nullopt;
  }
  return slurm_undrain(node.name);
}

}  // namespace muster
