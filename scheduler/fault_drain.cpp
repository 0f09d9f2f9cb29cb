#include "scheduler/fault_drain.h"

#include <algorithm>

#include "scheduler/limits.h"
#include "scheduler/lookup.h"
#include "scheduler/model/drain_reason.h"
#include "scheduler/remedies.h"
#include "scheduler/sentences.h"

namespace muster {

namespace {

const Breaker* breaker_of(const State& state, const std::string& check) {
  const auto found = state.breakers.find(check);
  return found == state.breakers.end() ? nullptr : &found->second;
}

bool is_withheld(const Turn& turn, const NodeFault& fault) {
  for (const Decision& decision : turn.decisions) {
    const auto* opened = std::get_if<BreakerOpened>(&decision);
    if (opened && opened->target == fault.check) return true;
  }
  const Breaker* breaker = breaker_of(turn.state, fault.check);
  if (!breaker) return false;
  return breaker->open_since || (breaker->reset_at && fault.since <= *breaker->reset_at);
}

// Since somebody said that the node is sound, only what was found later counts.
bool may_drain(const Turn& turn, const Node& node, const NodeFault& fault) {
  const bool is_news = !node.sound_since || fault.since > *node.sound_since;
  const bool drains =
      fault.enforced && fault.remedy >= Remedy::drain && fault.fault_class != FaultClass::user;
  return drains && is_news && !is_withheld(turn, fault);
}

std::optional<NodeFault> worst_draining(const Turn& turn, const Node& node) {
  std::optional<NodeFault> worst;
  for (const NodeFault& told : node.faults) {
    NodeFault fault = climbed(turn.state, node.id, told);
    if (!may_drain(turn, node, fault)) continue;
    const auto weight = [](const NodeFault& one) { return std::pair{one.stops_job, one.remedy}; };
    if (!worst || weight(fault) > weight(*worst)) worst = std::move(fault);
  }
  return worst;
}

std::size_t drained_lately(const Turn& turn, const std::string& check) {
  const Time begin = turn.moment.now() - breaker_window;
  std::size_t count = 0;
  for (const auto& [id, node] : turn.state.nodes) {
    const auto& drain = node.fault_drain;
    if (drain && drain->fault.check == check && drain->since > begin) count += 1;
  }
  for (const Decision& decision : turn.decisions) {
    const auto* faulted = std::get_if<NodeFaulted>(&decision);
    if (faulted && faulted->fault.check == check) count += 1;
  }
  return count;
}

std::size_t drains_most(const State& state) {
  const std::size_t percent = state.nodes.size() * breaker_percent / 100;
  return std::max<std::size_t>(breaker_nodes, percent);
}

BreakerOpened opened_for(const Turn& turn, const Node& node, const NodeFault& fault) {
  return {fault.check,
          node.id.value + " would be drained too (" + fault.what + "): more than " +
              count_text(drains_most(turn.state), "node") + " failing " + fault.check + " within " +
              duration_text(breaker_window) + " look like one fault of network, storage or power",
          true};
}

bool has_fault(const Node& node, const std::string& id) {
  return std::any_of(node.faults.begin(), node.faults.end(),
                     [&](const NodeFault& fault) { return fault.id == id; });
}

void mind(Turn& turn, const Node& node) {
  const std::optional<NodeFault> worst = worst_draining(turn, node);
  if (node.fault_drain) {
    const NodeFault& known = node.fault_drain->fault;
    const bool has_passed = node.faults_settled && !has_fault(node, known.id);
    const Time earliest = node.fault_drain->since + fault_drain_least;
    const bool is_over = has_passed && turn.moment.reached(earliest);
    const bool is_worse = worst && worst->stops_job && !known.stops_job;
    if (is_over && !worst) return turn.decide(NodeFaultOver{node.id, node.fault_drain->reason});
    if (!worst || (!is_over && !is_worse)) return;
    if (worst->id == known.id && !is_worse) return;
  }
  if (!worst) return;
  if (!node.fault_drain && drained_lately(turn, worst->check) >= drains_most(turn.state)) {
    return turn.decide(opened_for(turn, node, *worst));
  }
  turn.decide(NodeFaulted{
      node.id, *worst,
      text_of(drain_reason(worst->fault_class, worst->check, worst->device, worst->id))});
}

const char* remedy_text(Remedy remedy) {
  switch (remedy) {
    case Remedy::reset:
      return ", needs a reset";
    case Remedy::reboot:
      return ", needs a reboot";
    case Remedy::rma:
      return ", needs a repair";
    case Remedy::warn:
    case Remedy::drain:
      return "";
  }
  return "";
}

// A node that has left explains nothing of what comes later; one that came again is another.
bool stops(const Attempt& attempt, const NodeFaulted& one) {
  const AttemptNode* node = find_node(attempt, one.node);
  return one.fault.stops_job && node && !node->leaves && !node->released;
}

}  // namespace

void mind_faults(Turn& turn) {
  for (const auto& [id, node] : turn.state.nodes) {
    if (!node.faults.empty() || node.fault_drain) mind(turn, node);
  }
}

std::string fault_text(const NodeFaulted& fault) {
  return fault.node.value + ": " + fault.fault.what + " (" + fault.fault.check +
         remedy_text(fault.fault.remedy) + ")";
}

const NodeFaulted* stopping_fault(const Attempt& attempt) {
  const auto found = std::find_if(attempt.faulted.begin(), attempt.faulted.end(),
                                  [&](const NodeFaulted& one) { return stops(attempt, one); });
  return found == attempt.faulted.end() ? nullptr : &*found;
}

const NodeFaulted* stopping_fault(const Attempt& attempt, const NodeId& node) {
  const auto is_it = [&](const NodeFaulted& one) {
    return one.node == node && stops(attempt, one);
  };
  const auto found = std::find_if(attempt.faulted.begin(), attempt.faulted.end(), is_it);
  return found == attempt.faulted.end() ? nullptr : &*found;
}

}  // namespace muster
