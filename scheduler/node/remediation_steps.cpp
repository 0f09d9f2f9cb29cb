#include "scheduler/node/remediation_steps.h"

#include <algorithm>

#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"

namespace muster {

namespace {

// In order. A reset is followed by a reboot where the fault says so; what a reset is called for
// without a command for it is not rebooted at once.
std::vector<RemedyStep> steps_for(const NodeFault& fault, const RemedyCommands& commands) {
  std::vector<RemedyStep> steps;
  const bool is_reset = fault.remedy == Remedy::reset;
  if (is_reset && commands.reset.empty()) return steps;
  if (is_reset) steps.push_back(RemedyStep::reset);
  const bool may_reboot = !is_reset || fault.on_recurrence == Remedy::reboot;
  if (may_reboot && !commands.reboot.empty()) steps.push_back(RemedyStep::reboot);
  if (may_reboot && !commands.reboot_from_here.empty()) {
    steps.push_back(RemedyStep::reboot_from_here);
  }
  return steps;
}

// The host's own hands cannot be had while it does not answer.
bool needs_link(RemedyStep step) {
  return step != RemedyStep::reboot_from_here;
}

// Nodes that are free are looked for as long as a job may get them.
std::optional<Time> wanted_since(const State& state, const NodeId& id) {
  std::optional<Time> since;
  for (const auto& [name, job] : state.jobs) {
    if (!has_node(job.target, id)) continue;
    since = std::min(since.value_or(job.submitted_at), job.submitted_at);
  }
  return since;
}

// How long ago it was lost says nothing: perhaps nobody has looked for it since.
bool is_sought_in_vain(Turn& turn, const Node& node) {
  const Unlinked* lost = unlinked(turn.state, node.id);
  const auto wanted = wanted_since(turn.state, node.id);
  if (!lost || !lost->sought_since || !wanted || !node.fault_drain) return false;
  const Time since = std::max({lost->since, *lost->sought_since, *wanted, node.fault_drain->since});
  return turn.moment.reached(since + remedy_link_limit);
}

}  // namespace

const ComputeTarget* target_with_commands(const State& state, const NodeId& id) {
  for (const auto& [name, job] : state.jobs) {
    if (!job.target.remedies.none() && has_node(job.target, id)) return &job.target;
  }
  return nullptr;
}

const std::vector<std::string>& step_words(const RemedyCommands& commands, RemedyStep step) {
  if (step == RemedyStep::reset) return commands.reset;
  return step == RemedyStep::reboot ? commands.reboot : commands.reboot_from_here;
}

const RemedyTry* try_of(const Node& node, const NodeFault& fault, RemedyStep step) {
  const auto found =
      std::find_if(node.remedies.rbegin(), node.remedies.rend(), [&](const RemedyTry& one) {
        return one.fault == fault.id && one.step == step && one.at >= fault.since;
      });
  return found == node.remedies.rend() ? nullptr : &*found;
}

std::optional<RemedyStep> untried_step(const Node& node, const NodeFault& fault,
                                       const RemedyCommands& commands) {
  for (const RemedyStep step : steps_for(fault, commands)) {
    const RemedyTry* tried = try_of(node, fault, step);
    if (!tried) return step;
    if (tried->failure.empty()) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<RemedyStep> next_step(Turn& turn, const Node& node, const NodeFault& fault,
                                    const RemedyCommands& commands) {
  const bool is_linked = linked_agent(turn.state, node.id) != nullptr;
  for (const RemedyStep step : steps_for(fault, commands)) {
    const RemedyTry* tried = try_of(node, fault, step);
    if (tried && tried->failure.empty()) return std::nullopt;  // done; its checks have the word
    if (tried) continue;
    if (is_linked) return step;
    if (!is_sought_in_vain(turn, node)) return std::nullopt;
    if (!needs_link(step)) return step;
    if (step == RemedyStep::reset) return std::nullopt;
  }
  return std::nullopt;
}

std::vector<RemedyTry> tries_lately(const Node& node, Time now) {
  std::vector<RemedyTry> tries = node.remedies;
  std::erase_if(tries, [&](const RemedyTry& one) { return one.at <= now - remedy_day; });
  return tries;
}

bool is_followed(const Turn& turn, const Node& node) {
  if (node.remedy->what.step != RemedyStep::reboot) return false;
  const ComputeTarget* target = target_with_commands(turn.state, node.id);
  return target && !target->remedies.reboot_from_here.empty() && node.fault_drain &&
         !node.drained && tries_lately(node, turn.moment.now()).size() < remedies_a_day;
}

}  // namespace muster
