#include "scheduler/node/fault_drain.h"

#include <algorithm>
#include <set>

#include "scheduler/model/node_fault.h"
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

// The nodes among which a check may drain some.
struct Fleet {
  std::string name;  // of the target; empty: of no live job's
  std::size_t size = 0;
  std::vector<const Node*> known;
  BreakerProfile limits;
};

// That of the job that it works for; else of the first job that may get it.
const ComputeTarget* target_of(const State& state, const Node& node) {
  const Job* owner = node.owner ? find_job(state, *node.owner) : nullptr;
  if (owner && has_node(owner->target, node.id)) return &owner->target;
  for (const auto& [id, job] : state.jobs) {
    if (has_node(job.target, node.id)) return &job.target;
  }
  return nullptr;
}

// What is left of targets whose jobs have ended.
Fleet fleet_of_nobody(const State& state) {
  std::set<NodeId> of_somebody;
  for (const auto& [id, job] : state.jobs) {
    for (const NodeAddress& address : job.target.nodes) of_somebody.insert(address.id);
  }
  Fleet fleet;
  for (const auto& [id, node] : state.nodes) {
    if (!of_somebody.contains(id)) fleet.known.push_back(&node);
  }
  fleet.size = fleet.known.size();
  return fleet;
}

Fleet fleet_of(const State& state, const Node& node) {
  const ComputeTarget* target = target_of(state, node);
  if (!target) return fleet_of_nobody(state);
  Fleet fleet{target->name, target->nodes.size(), {}, {}};
  if (target->health) fleet.limits = target->health->breaker;
  for (const NodeAddress& address : target->nodes) {
    if (const Node* known = find_node(state, address.id)) fleet.known.push_back(known);
  }
  return fleet;
}

bool waits_to_settle(const NodeFault& fault) {
  return fault.shared_cause && !fault.stops_job;
}

// All nodes of a target that has several are too many for what they may share.
std::size_t drains_most(const Fleet& fleet, const NodeFault& fault) {
  const double share = static_cast<double>(fleet.size) * std::max(0.0, fleet.limits.fleet_pct);
  // A hair more: a product that is 3 by the book may be 2.9999….
  const auto part = static_cast<std::size_t>(share / 100 + 1e-9);
  const std::size_t most =
      std::max(static_cast<std::size_t>(std::max(0, fleet.limits.min_nodes)), part);
  if (!waits_to_settle(fault) || fleet.size < 2) return most;
  return std::min(most, fleet.size - 1);
}

Milliseconds window_of(const Fleet& fleet) {
  return Seconds{std::max(0, fleet.limits.window_s)};
}

bool is_drained_now(const Turn& turn, const NodeId& id, const std::string& check) {
  return std::ranges::any_of(turn.decisions, [&](const Decision& decision) {
    const auto* faulted = std::get_if<NodeFaulted>(&decision);
    return faulted && faulted->node == id && faulted->fault.check == check;
  });
}

bool has_it_lately(const Turn& turn, const Node& node, const std::string& check, Time begin) {
  return std::ranges::any_of(node.faults, [&](const NodeFault& fault) {
    if (fault.check != check || !calls_for_drain(node, fault) || is_withheld(turn, node, fault)) {
      return false;
    }
    const auto told = node.faults_told.find(fault.id);
    return told != node.faults_told.end() && told->second > begin;
  });
}

// Of what settles, those that will be drained count as well as those that were.
bool counts(const Turn& turn, const Node& node, const NodeFault& fault, Milliseconds window) {
  const Time begin = turn.moment.now() - window;
  const auto& drain = node.fault_drain;
  if (drain && drain->fault.check == fault.check && drain->since > begin) return true;
  if (is_drained_now(turn, node.id, fault.check)) return true;
  return waits_to_settle(fault) &&
         has_it_lately(turn, node, fault.check, begin - shared_cause_settles);
}

// Whose remedies were in vain.
std::vector<NodeId> found_by(const Turn& turn, const Fleet& fleet, const std::string& check,
                             Milliseconds window) {
  const Time begin = turn.moment.now() - window;
  std::set<NodeId> remedied;
  for (const RemedyTaken& taken : turn.state.remedies) {
    if (taken.check == check && taken.asked_at > begin) remedied.insert(taken.node);
  }
  std::vector<NodeId> found;
  for (const Node* node : fleet.known) {
    if (remedied.contains(node->id) || is_drained_now(turn, node->id, check)) {
      found.push_back(node->id);
    }
  }
  return found;
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

// Since somebody said that the node is sound, only what was found later counts.
bool calls_for_drain(const Node& node, const NodeFault& fault) {
  const bool is_news = !node.cleared_at || fault.since > *node.cleared_at;
  return is_news && fault.enforced && fault.remedy >= Remedy::drain &&
         fault.fault_class != FaultClass::user;
}

bool is_withheld(const Turn& turn, const Node& node, const NodeFault& fault) {
  std::optional<std::set<std::string>> targets;
  const auto is_about_it = [&](const std::string& name) {
    if (check_of_breaker(name) != fault.check) return false;
    if (!targets) targets = targets_of(turn.state, node.id);
    return targets->empty() || is_breaker_of(name, *targets);
  };
  for (const Decision& decision : turn.decisions) {
    const auto* opened = std::get_if<BreakerOpened>(&decision);
    if (opened && opened->is_check && is_about_it(opened->target)) return true;
  }
  const auto& all = turn.state.breakers;
  for (auto it = all.lower_bound(fault.check);
       it != all.end() && it->first.starts_with(fault.check); ++it) {
    const Breaker& breaker = it->second;
    const bool holds = breaker.open_since || (breaker.reset_at && fault.since <= *breaker.reset_at);
    if (holds && is_about_it(it->first)) return true;
  }
  return false;
}

bool is_rearmed_since(const State& state, const NodeId& node, const NodeFault& fault) {
  return std::ranges::any_of(state.breakers, [&](const auto& entry) {
    const auto& [name, breaker] = entry;
    return breaker.reset_at && fault.since <= *breaker.reset_at &&
           check_of_breaker(name) == fault.check && is_breaker_of(name, targets_of(state, node));
  });
}

std::vector<std::string> checks_withheld(const State& state, const std::string& target) {
  std::set<std::string> checks;
  for (const auto& [name, breaker] : state.breakers) {
    const bool is_open = breaker.is_check && breaker.open_since;
    if (is_open && is_breaker_of(name, {target})) checks.emplace(check_of_breaker(name));
  }
  return {checks.begin(), checks.end()};
}

std::vector<std::string> checks_withheld_on(const State& state, const NodeId& node) {
  const bool is_any = std::ranges::any_of(
      state.breakers, [](const auto& one) { return one.second.is_check && one.second.open_since; });
  std::set<std::string> checks;
  for (const std::string& target : is_any ? targets_of(state, node) : std::set<std::string>()) {
    const auto withheld = checks_withheld(state, target);
    checks.insert(withheld.begin(), withheld.end());
  }
  return {checks.begin(), checks.end()};
}

bool has_settled(Turn& turn, const Node& node, const NodeFault& fault) {
  if (!waits_to_settle(fault)) return true;
  const auto told = node.faults_told.find(fault.id);
  return told == node.faults_told.end() || turn.moment.reached(told->second + shared_cause_settles);
}

std::optional<BreakerOpened> breaker_against(const Turn& turn, const Node& node,
                                             const NodeFault& fault) {
  const Fleet fleet = fleet_of(turn.state, node);
  const Milliseconds window = window_of(fleet);
  const std::size_t most = drains_most(fleet, fault);
  const auto others = std::ranges::count_if(fleet.known, [&](const Node* other) {
    return other->id != node.id && counts(turn, *other, fault, window);
  });
  if (static_cast<std::size_t>(others) < most) return std::nullopt;
  const std::string of = fleet.name.empty() ? "" : " of " + fleet.name;
  return BreakerOpened{breaker_name(fault.check, fleet.name),
                       node.id.value + " would be drained too (" + fault.what + "): more than " +
                           count_text(most, "node") + of + " failing " + fault.check + " within " +
                           duration_text(window) +
                           " look like one fault of network, storage or power",
                       true, window, found_by(turn, fleet, fault.check, window)};
}

}  // namespace muster
