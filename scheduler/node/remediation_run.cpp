#include "scheduler/node/remediation_run.h"

#include <algorithm>

#include "scheduler/model/remediation.h"
#include "scheduler/node/breaker.h"
#include "scheduler/node/remediation.h"
#include "scheduler/node/remediation_steps.h"
#include "scheduler/node/status.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/remediation.h"

namespace muster {

namespace {

// An agent that has just been greeted may say that it is over.
bool is_heard(const Turn& turn, const Node& node) {
  return node.faults_heard.contains(node.fault_drain->fault.id) ||
         !linked_agent(turn.state, node.id);
}

bool is_idle(Turn& turn, const Node& node) {
  return !node.owner && !node.unclean && !node.drained && !is_leaving(node, turn.moment);
}

// As its agent tells it now, with what it calls for by now.
std::optional<NodeFault> fault_to_mend(const State& state, const Node& node) {
  const auto told = std::ranges::find_if(
      node.faults, [&](const NodeFault& fault) { return fault.id == node.fault_drain->fault.id; });
  if (told == node.faults.end()) return std::nullopt;
  NodeFault fault = climbed(state, node.id, *told);
  const bool is_of_node =
      fault.fault_class == FaultClass::node || fault.fault_class == FaultClass::setup;
  const bool is_mendable = fault.remedy == Remedy::reset || fault.remedy == Remedy::reboot;
  if (!is_of_node || !is_mendable || !calls_for_drain(node, fault)) return std::nullopt;
  return fault;
}

bool is_begun_now(const Turn& turn, const NodeId& id) {
  return std::ranges::any_of(turn.decisions, [&](const Decision& decision) {
    const auto* begun = std::get_if<RemedyBegun>(&decision);
    return begun && begun->node == id;
  });
}

// It may be away itself, for the step before.
bool has_room(const Turn& turn, const ComputeTarget& target, const NodeId& self) {
  const auto busy = std::ranges::count_if(target.nodes, [&](const NodeAddress& address) {
    const Node* node = find_node(turn.state, address.id);
    return node && node->id != self && (takes_remedy_room(*node) || is_begun_now(turn, node->id));
  });
  return static_cast<std::size_t>(busy) < remedies_most(target);
}

void begin(Turn& turn, const Node& node) {
  if (!is_idle(turn, node) || !is_heard(turn, node)) return;
  const auto fault = fault_to_mend(turn.state, node);
  if (!fault || is_withheld(turn, node, *fault)) return;
  const ComputeTarget* target = target_with_commands(turn.state, node.id);
  if (!target) return;
  const auto step = next_step(turn, node, *fault, target->remedies);
  if (!step) return;
  auto argv = remedy_argv(step_words(target->remedies, *step), node.id, *fault);
  if (!argv) return;
  const Time now = turn.moment.now();
  std::vector<RemedyTry> before = tries_lately(node, now);
  if (before.size() >= remedies_a_day) {
    turn.moment.reached(before.front().at + remedy_day);
    return;
  }
  if (!has_room(turn, *target, node.id)) return;
  RemedyBegun begun{node.id,
                    fault->id + "." + std::to_string(to_ms(now)),
                    *step,
                    *fault,
                    std::move(*argv),
                    {},
                    {},
                    std::move(before)};
  begun.fault.evidence.clear();  // its drain tells
  if (const LinkUp* agent = last_agent(node)) {
    begun.agent_id = agent->agent_id;
    begun.boot_id = agent->boot_id;
  }
  turn.decide(std::move(begun));
}

// ---- words ------------------------------------------------------------------------------------

std::string patient(RemedyStep step, const std::string& device) {
  return step == RemedyStep::reset && !device.empty() ? device : "the host";
}

}  // namespace

void mind_remedies(Turn& turn) {
  for (const auto& [id, node] : turn.state.nodes) {
    if (node.remedy) conclude_remedy(turn, node);
  }
  if (!turn.decisions.empty()) return;
  for (const auto& [id, node] : turn.state.nodes) {
    if (node.fault_drain && !node.remedy) begin(turn, node);
  }
}

bool takes_remedy_room(const Node& node) {
  return node.remedy || (node.is_away && !node.drained);
}

std::size_t remedies_most(const ComputeTarget& target) {
  return std::max<std::size_t>(remedies_at_once,
                               target.nodes.size() * remedies_at_once_percent / 100);
}

Milliseconds command_limit(RemedyStep step) {
  return step == RemedyStep::reset ? reset_limit : reboot_command_limit;
}

std::optional<std::string> remedy_text(const Node& node) {
  if (!node.remedy) return std::nullopt;
  return node.remedy->what.step == RemedyStep::reset ? "is being reset" : "is rebooting";
}

std::optional<std::string> remedy_hindrance(const State& state, const Node& node) {
  if (!node.fault_drain || node.remedy || node.drained) return std::nullopt;
  const auto fault = fault_to_mend(state, node);
  const ComputeTarget* target = fault ? target_with_commands(state, node.id) : nullptr;
  const auto step = target ? untried_step(node, *fault, target->remedies) : std::nullopt;
  if (!step) return std::nullopt;
  const auto unfit = unfit_placeholder(step_words(target->remedies, *step), node.id, *fault);
  if (!unfit) return std::nullopt;
  return std::string("not ") + (*step == RemedyStep::reset ? "reset" : "rebooted") +
         " by muster: nothing fits {" + *unfit + "} of its command, as the fault is of " +
         (fault->device.empty() ? "the host" : fault->device);
}

std::string begun_text(const RemedyBegun& begun) {
  const char* verb = begun.step == RemedyStep::reset ? " is reset" : " is rebooted";
  const char* where =
      begun.step == RemedyStep::reboot_from_here ? " from the controller's host" : "";
  std::string text = begun.node.value + ": " + patient(begun.step, begun.fault.device) + verb +
                     " by muster" + where + " for " + begun.fault.what + ":";
  for (const std::string& word : begun.argv) text += " " + word;
  return text;
}

std::string over_text(const RemedyOver& over) {
  const bool is_reset = over.step == RemedyStep::reset;
  const std::string who = patient(over.step, over.device);
  if (over.failure.empty()) {
    return over.node.value + ": " + who + (is_reset ? " reset" : " rebooted") +
           " by muster after " + over.what;
  }
  return over.node.value + ": muster could not " + (is_reset ? "reset " : "reboot ") + who +
         " after " + over.what + ": " + over.failure;
}

}  // namespace muster
