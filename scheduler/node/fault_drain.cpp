#include "scheduler/node/fault_drain.h"

#include <algorithm>

#include "scheduler/model/node_fault.h"
#include "scheduler/node/breaker.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/remediation.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

std::optional<NodeFault> worst_draining(Turn& turn, const Node& node) {
  std::optional<NodeFault> worst;
  for (const NodeFault& told : node.faults) {
    NodeFault fault = climbed(turn.state, node.id, told);
    const bool may_drain = calls_for_drain(node, fault) && !is_withheld(turn, node, fault);
    if (!may_drain || !has_settled(turn, node, fault)) continue;
    const auto weight = [](const NodeFault& one) { return std::pair{one.stops_job, one.remedy}; };
    if (!worst || weight(fault) > weight(*worst)) worst = std::move(fault);
  }
  return worst;
}

bool has_fault(const Node& node, const std::string& id) {
  return std::ranges::any_of(node.faults, [&](const NodeFault& fault) { return fault.id == id; });
}

// By muster, since it was drained: then a pass is no mood of the check's.
bool was_remedied(const Node& node) {
  if (node.remedies.empty() || node.remedy) return false;
  const RemedyTry& latest = node.remedies.back();
  return latest.failure.empty() && latest.fault == node.fault_drain->fault.id &&
         latest.at >= node.fault_drain->since;
}

// A reboot of anybody's tells as much as what muster did.
bool was_seen_to(const Node& node) {
  return node.fault_drain->rebooted || was_remedied(node);
}

// An agent that has told it itself knows when it is over; any other has to look for a while.
bool is_looked_at(const Node& node) {
  return node.faults_settled || node.faults_heard.contains(node.fault_drain->fault.id);
}

void mind(Turn& turn, const Node& node) {
  const std::optional<NodeFault> worst = worst_draining(turn, node);
  bool is_over = false;
  if (node.fault_drain) {
    const NodeFault& known = node.fault_drain->fault;
    const bool has_passed = is_looked_at(node) && !has_fault(node, known.id);
    is_over = has_passed && (was_seen_to(node) ||
                             turn.moment.reached(node.fault_drain->since + fault_drain_least));
    const bool is_worse = worst && worst->stops_job && !known.stops_job;
    if (is_over && !worst) return turn.decide(NodeFaultOver{node.id, node.fault_drain->reason});
    if (!worst || (!is_over && !is_worse)) return;
    if (worst->id == known.id && !is_worse) return;
  }
  if (!worst) return;
  if (!node.fault_drain || is_over) {
    if (auto opened = breaker_against(turn, node, *worst)) return turn.decide(std::move(*opened));
  }
  turn.decide(
      NodeFaulted{node.id, *worst,
                  text_of(drain_reason(worst->fault_class, worst->check, worst->device, worst->id)),
                  node.owner});
}

const char* remedy_text(Remedy remedy) {
  if (remedy == Remedy::reset) return ", needs a reset";
  if (remedy == Remedy::reboot) return ", needs a reboot";
  return remedy == Remedy::rma ? ", needs a repair" : "";
}

// A node that has left explains nothing of what comes later; one that came again is another.
bool stops(const Attempt& attempt, const NodeFaulted& one) {
  const AttemptNode* node = find_node(attempt, one.node);
  return one.fault.stops_job && node && is_active(*node);
}

}  // namespace

void handle_faults(Turn& turn) {
  for (const auto& [id, node] : turn.state.nodes) {
    if (!node.faults.empty() || node.fault_drain) mind(turn, node);
  }
}

std::string next_look_text(const Node& node, Time now) {
  if (!node.fault_drain) return "";
  if (!std::holds_alternative<Linked>(node.link)) return "looked at again when it answers";
  if (!is_looked_at(node)) return "being looked at again";
  if (has_fault(node, node.fault_drain->fault.id)) return "looked at every 2 min until it is fixed";
  const Time free_at = node.fault_drain->since + fault_drain_least;
  if (was_seen_to(node) || free_at <= now) return "about to take jobs again";
  return "fixed; resumed in " + duration_text(free_at - now);
}

std::string fault_text(const NodeFaulted& fault) {
  return fault.node.value + ": " + fault.fault.what + " (" + fault.fault.check +
         remedy_text(fault.fault.remedy) + ")";
}

const NodeFaulted* stopping_fault(const Attempt& attempt, const NodeId* node) {
  const auto found = std::ranges::find_if(attempt.faulted, [&](const NodeFaulted& one) {
    return stops(attempt, one) && (!node || one.node == *node);
  });
  return found == attempt.faulted.end() ? nullptr : &*found;
}

}  // namespace muster
