#include "scheduler/node/remediation_run.h"

#include <algorithm>

#include "scheduler/model/node_fault.h"
#include "scheduler/model/remediation.h"
#include "scheduler/node/fault_drain.h"
#include "scheduler/node/status.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/remediation.h"
#include "scheduler/state/sentences.h"

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

// ---- the end of one ---------------------------------------------------------------------------
// By the word of its command, by the node's next boot, or because nothing was heard for too long.
// Silence counts only while this controller listens: what happened while none was there, or nobody
// knew the node's address, is not known.

// A command of a reboot that was begun has asked for it, even if a signal is its end: the reboot
// takes it along, and one that was killed for its time may have been heard.
std::optional<std::string> failure_of(const RemedyUnderway& underway) {
  if (!underway.ended) return std::nullopt;
  const RemedyEnded& ended = *underway.ended;
  const bool is_reboot = underway.what.step != RemedyStep::reset;
  if (is_reboot && ended.status.signal != 0) return std::nullopt;
  if (!ended.error.empty()) return ended.error;
  if (ended.status.ok()) return std::nullopt;
  return "its command " + exit_text(ended.status);
}

// Since when the node's agent is heard, or looked for; nothing: not yet.
std::optional<Time> listened_since(const Node& node) {
  if (const auto* linked = std::get_if<Linked>(&node.link)) return linked->since;
  const auto* lost = std::get_if<Unlinked>(&node.link);
  return lost ? lost->sought_since : std::nullopt;
}

bool is_overdue(Turn& turn, const Node& node, Time limit) {
  const auto since = listened_since(node);
  return since && turn.moment.reached(std::max(limit, *since + remedy_answer_margin));
}

std::optional<std::string> reset_failure(Turn& turn, const Node& node,
                                         const RemedyUnderway& underway) {
  const LinkUp* agent = linked_agent(turn.state, node.id);
  if (agent && agent->agent_id != underway.what.agent_id) {
    return "its agent restarted before it said how that went";
  }
  const Milliseconds limit = reset_limit + remedy_answer_margin;
  if (!is_overdue(turn, node, underway.since + limit)) return std::nullopt;
  return "no word of it for " + duration_text(limit);
}

bool has_rebooted(const Turn& turn, const Node& node, const RemedyBegun& begun) {
  const LinkUp* agent = linked_agent(turn.state, node.id);
  return agent && agent->boot_id != begun.boot_id;
}

RemedyOver over_of(const RemedyUnderway& underway, std::string failure) {
  const RemedyBegun& begun = underway.what;
  RemedyOver over{begun.node,       begun.id, begun.step, begun.fault.device,
                  begun.fault.what, {},       {},         false};
  if (!failure.empty() && underway.ended) over.lines = underway.ended->lines;
  over.failure = std::move(failure);
  return over;
}

// It went down for muster, and its agent does not answer: that is what keeps it away now.
NodeFaulted not_back(const Node& node, const RemedyBegun& begun, Time now) {
  NodeFault fault;
  fault.id = "host.agent";
  fault.check = "host.agent";
  fault.stops_job = true;
  fault.since = now;
  fault.what = "not back " + duration_text(reboot_back_limit) + " after muster rebooted it for " +
               begun.fault.what;
  return {node.id,
          fault,
          text_of(drain_reason(fault.fault_class, fault.check, fault.device, fault.id)),
          {}};
}

void conclude_reset(Turn& turn, const Node& node) {
  const RemedyUnderway& underway = *node.remedy;
  if (auto failure = failure_of(underway)) return turn.decide(over_of(underway, *failure));
  if (underway.ended) return turn.decide(over_of(underway, ""));
  if (auto failure = reset_failure(turn, node, underway)) {
    turn.decide(over_of(underway, *failure));
  }
}

// A host that hangs in its own shutdown is away, but not given up while its power can be cut.
void conclude_away(Turn& turn, const Node& node, std::string failure) {
  const RemedyUnderway& underway = *node.remedy;
  RemedyOver over = over_of(underway, std::move(failure));
  over.is_away = true;
  const bool is_given_up = !is_followed(turn, node);
  turn.decide(std::move(over));
  if (is_given_up) turn.decide(not_back(node, underway.what, turn.moment.now()));
}

// It went down for the step before this one.
bool is_down_for_muster(const Turn& turn, const Node& node) {
  const RemedyBegun& begun = node.remedy->what;
  return begun.step == RemedyStep::reboot_from_here && !linked_agent(turn.state, node.id) &&
         try_of(node, begun.fault, RemedyStep::reboot);
}

void conclude_reboot(Turn& turn, const Node& node) {
  const RemedyUnderway& underway = *node.remedy;
  if (has_rebooted(turn, node, underway.what)) return turn.decide(over_of(underway, ""));
  if (auto failure = failure_of(underway)) {
    if (is_down_for_muster(turn, node)) return conclude_away(turn, node, *failure);
    return turn.decide(over_of(underway, *failure));
  }
  if (!is_overdue(turn, node, underway.since + reboot_back_limit)) return;
  const std::string limit = duration_text(reboot_back_limit);
  if (linked_agent(turn.state, node.id)) {
    return turn.decide(over_of(underway, "after " + limit + " it still has not rebooted"));
  }
  conclude_away(turn, node, "it did not come back within " + limit);
}

void conclude_remedy(Turn& turn, const Node& node) {
  if (node.remedy->what.step == RemedyStep::reset) return conclude_reset(turn, node);
  conclude_reboot(turn, node);
}

// ---- words ------------------------------------------------------------------------------------

std::string patient(RemedyStep step, const std::string& device) {
  return step == RemedyStep::reset && !device.empty() ? device : "the host";
}

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

void handle_remedies(Turn& turn) {
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
