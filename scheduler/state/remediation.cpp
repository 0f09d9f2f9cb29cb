#include "scheduler/state/remediation.h"

#include <algorithm>

#include "scheduler/state/limits.h"

namespace muster {

namespace {

bool is_of_board(const RemedyTaken& taken, const NodeId& node, const NodeFault& fault) {
  if (!fault.serial.empty()) return taken.serial == fault.serial;
  return taken.node == node && taken.device == fault.device;
}

// A fault that only ends programs says something about the board when another job meets it there.
bool is_of_program(const NodeFault& fault) {
  return fault.remedy == Remedy::warn && !fault.code.empty();
}

// Whose the node was when the fault was first told; else whose it is.
const std::string& job_of(const State& state, const NodeId& id, const NodeFault& fault) {
  static const std::string nobody;
  for (const RemedyTaken& taken : state.remedies) {
    const bool is_it = taken.at == fault.since && is_of_board(taken, id, fault) &&
                       taken.check == fault.check && taken.code == fault.code;
    if (is_it) return taken.job;
  }
  const auto node = state.nodes.find(id);
  const bool is_owned = node != state.nodes.end() && node->second.owner;
  return is_owned ? node->second.owner->value : nobody;
}

bool came_before(const State& state, const RemedyTaken& taken, const NodeId& node,
                 const NodeFault& fault) {
  const bool is_same =
      is_of_board(taken, node, fault) && taken.check == fault.check && taken.code == fault.code;
  if (!is_same || taken.at >= fault.since || taken.at < fault.since - fault_memory) return false;
  return !is_of_program(fault) || taken.job != job_of(state, node, fault);
}

Remedy above(Remedy remedy) {
  if (remedy == Remedy::reset) return Remedy::reboot;
  if (remedy == Remedy::reboot) return Remedy::rma;
  return remedy;
}

bool reboots_in_a_loop(const State& state, const NodeId& node, const NodeFault& fault) {
  const auto count = std::ranges::count_if(state.remedies, [&](const RemedyTaken& taken) {
    return taken.remedy == Remedy::reboot && taken.node == node && taken.at < fault.since &&
           taken.at > fault.since - reboot_window;
  });
  return count >= reboots_before_repair;
}

}  // namespace

NodeFault climbed(const State& state, const NodeId& node, NodeFault fault) {
  // An error of a program that a second job meets on the same board is the board's.
  if (fault.fault_class != FaultClass::node && !is_of_program(fault)) return fault;
  // A warning of another kind asked for nothing that could have failed; its agent says when it
  // comes too often.
  if (fault.on_recurrence && (fault.remedy != Remedy::warn || is_of_program(fault))) {
    const Remedy next = std::max(fault.remedy, *fault.on_recurrence);
    Remedy due = fault.remedy;
    for (const RemedyTaken& taken : state.remedies) {
      if (!came_before(state, taken, node, fault)) continue;
      due = std::max(due, taken.remedy >= next ? above(taken.remedy) : next);
    }
    if (due > fault.remedy) fault.fault_class = FaultClass::node;
    fault.remedy = due;
  }
  if (fault.remedy == Remedy::reboot && reboots_in_a_loop(state, node, fault)) {
    fault.remedy = Remedy::rma;
  }
  return fault;
}

void remember_remedy(State& state, const NodeId& node, const NodeFault& fault,
                     const std::optional<JobId>& owner, Time at) {
  auto& all = state.remedies;
  const auto known = std::ranges::find_if(all, [&](const RemedyTaken& taken) {
    return taken.at == fault.since && is_of_board(taken, node, fault) &&
           taken.check == fault.check && taken.code == fault.code;
  });
  // Told again while another job runs there, it is still the fault of the first.
  if (known != all.end()) {
    if (fault.remedy > known->remedy) known->asked_at = at;
    known->remedy = std::max(known->remedy, fault.remedy);
    return;
  }
  std::erase_if(all,
                [&](const RemedyTaken& taken) { return taken.at < fault.since - fault_memory; });
  if (all.size() >= remedies_kept) all.erase(all.begin());
  all.push_back({fault.since, at, node, fault.serial, fault.device, fault.check, fault.code,
                 fault.remedy, owner ? owner->value : ""});
}

void forget_remedies(State& state, std::string_view check, Time since,
                     const std::vector<NodeId>* nodes) {
  std::erase_if(state.remedies, [&](const RemedyTaken& taken) {
    const bool is_it = taken.check == check && taken.asked_at > since;
    return is_it && (!nodes || std::ranges::find(*nodes, taken.node) != nodes->end());
  });
}

}  // namespace muster
