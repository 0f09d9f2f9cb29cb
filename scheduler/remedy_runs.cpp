#include "scheduler/remedy_runs.h"

#include <algorithm>

#include "scheduler/fault_breaker.h"
#include "scheduler/limits.h"
#include "scheduler/lookup.h"
#include "scheduler/model/drain_reason.h"
#include "scheduler/model/remedy_command.h"
#include "scheduler/node_standing.h"
#include "scheduler/remedies.h"
#include "scheduler/sentences.h"

namespace muster {

namespace {

// ---- the end of one ---------------------------------------------------------------------------

// A command of which a signal is the end may have been taken along by the reboot that it asked for.
std::optional<std::string> failure_of(const RemedyUnderway& underway) {
  if (!underway.ended) return std::nullopt;
  const RemedyEnded& ended = *underway.ended;
  if (!ended.error.empty()) return ended.error;
  const bool is_reboot = underway.what.step != RemedyStep::reset;
  if (ended.status.ok() || (is_reboot && ended.status.signal != 0)) return std::nullopt;
  return "its command " + exit_text(ended.status);
}

std::optional<std::string> reset_failure(Turn& turn, const Node& node,
                                         const RemedyUnderway& underway) {
  const LinkUp* agent = linked_agent(turn.state, node.id);
  if (agent && agent->agent_id != underway.what.agent_id) {
    return "its agent started anew before it said how that went";
  }
  if (!turn.moment.reached(underway.since + reset_limit + remedy_answer_margin)) {
    return std::nullopt;
  }
  return "no word of it for " + duration_text(reset_limit + remedy_answer_margin);
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

void conclude_reboot(Turn& turn, const Node& node) {
  const RemedyUnderway& underway = *node.remedy;
  if (has_rebooted(turn, node, underway.what)) return turn.decide(over_of(underway, ""));
  if (auto failure = failure_of(underway)) return turn.decide(over_of(underway, *failure));
  if (!turn.moment.reached(underway.since + reboot_back_limit)) return;
  const std::string limit = duration_text(reboot_back_limit);
  if (linked_agent(turn.state, node.id)) {
    return turn.decide(over_of(underway, "after " + limit + " it still has not rebooted"));
  }
  RemedyOver over = over_of(underway, "it did not come back within " + limit);
  over.is_away = true;
  turn.decide(std::move(over));
  turn.decide(not_back(node, underway.what, turn.moment.now()));
}

void conclude(Turn& turn, const Node& node) {
  if (node.remedy->what.step == RemedyStep::reset) return conclude_reset(turn, node);
  conclude_reboot(turn, node);
}

// ---- what comes next --------------------------------------------------------------------------

// An agent that has just been greeted may say that it is over.
bool is_heard(const Turn& turn, const Node& node) {
  return node.faults_heard.contains(node.fault_drain->fault.id) ||
         !linked_agent(turn.state, node.id);
}

bool is_idle(Turn& turn, const Node& node) {
  return !node.owner && !node.unclean && !node.drained && !is_leaving(node, turn.moment);
}

// As its agent tells it now, with what it calls for by now.
std::optional<NodeFault> fault_to_mend(const Turn& turn, const Node& node) {
  const auto told =
      std::find_if(node.faults.begin(), node.faults.end(),
                   [&](const NodeFault& fault) { return fault.id == node.fault_drain->fault.id; });
  if (told == node.faults.end()) return std::nullopt;
  NodeFault fault = climbed(turn.state, node.id, *told);
  const bool is_of_node =
      fault.fault_class == FaultClass::node || fault.fault_class == FaultClass::setup;
  const bool is_mendable = fault.remedy == Remedy::reset || fault.remedy == Remedy::reboot;
  if (!is_of_node || !is_mendable || !calls_for_drain(node, fault) || is_withheld(turn, fault)) {
    return std::nullopt;
  }
  return fault;
}

// Of the first job that may get the node and has commands for it.
const ComputeTarget* target_with_commands(const State& state, const NodeId& id) {
  for (const auto& [name, job] : state.jobs) {
    if (!job.target.remedies.none() && has_node(job.target, id)) return &job.target;
  }
  return nullptr;
}

const std::vector<std::string>& words_of(const RemedyCommands& commands, RemedyStep step) {
  if (step == RemedyStep::reset) return commands.reset;
  return step == RemedyStep::reboot ? commands.reboot : commands.reboot_from_here;
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

// For this fault as it stands; one that came again is another.
const RemedyTry* try_of(const Node& node, const NodeFault& fault, RemedyStep step) {
  const auto found =
      std::find_if(node.remedies.rbegin(), node.remedies.rend(), [&](const RemedyTry& one) {
        return one.fault == fault.id && one.step == step && one.at >= fault.since;
      });
  return found == node.remedies.rend() ? nullptr : &*found;
}

// The host's own hands cannot be had while it does not answer.
bool needs_link(RemedyStep step) {
  return step != RemedyStep::reboot_from_here;
}

std::optional<RemedyStep> next_step(Turn& turn, const Node& node, const NodeFault& fault,
                                    const RemedyCommands& commands) {
  const bool is_linked = linked_agent(turn.state, node.id) != nullptr;
  const Unlinked* lost = unlinked(turn.state, node.id);
  for (const RemedyStep step : steps_for(fault, commands)) {
    const RemedyTry* tried = try_of(node, fault, step);
    if (tried && tried->failure.empty()) return std::nullopt;  // done; its checks have the word
    if (tried) continue;
    if (is_linked) return step;
    if (!lost || !turn.moment.reached(lost->since + remedy_link_limit)) return std::nullopt;
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

bool is_begun_now(const Turn& turn, const NodeId& id) {
  return std::any_of(turn.decisions.begin(), turn.decisions.end(), [&](const Decision& decision) {
    const auto* begun = std::get_if<RemedyBegun>(&decision);
    return begun && begun->node == id;
  });
}

bool has_room(const Turn& turn, const ComputeTarget& target) {
  const auto busy =
      std::count_if(target.nodes.begin(), target.nodes.end(), [&](const NodeAddress& address) {
        const Node* node = find_node(turn.state, address.id);
        return node && (node->remedy || node->is_away || is_begun_now(turn, node->id));
      });
  return static_cast<std::size_t>(busy) < remedies_most(target);
}

void begin(Turn& turn, const Node& node) {
  if (!is_idle(turn, node) || !is_heard(turn, node)) return;
  const auto fault = fault_to_mend(turn, node);
  if (!fault) return;
  const ComputeTarget* target = target_with_commands(turn.state, node.id);
  if (!target) return;
  const auto step = next_step(turn, node, *fault, target->remedies);
  if (!step) return;
  auto argv = remedy_argv(words_of(target->remedies, *step), node.id, *fault);
  if (!argv) return;
  const Time now = turn.moment.now();
  std::vector<RemedyTry> before = tries_lately(node, now);
  if (before.size() >= remedies_a_day) {
    turn.moment.reached(before.front().at + remedy_day);
    return;
  }
  if (!has_room(turn, *target)) return;
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
    if (node.remedy) conclude(turn, node);
  }
  if (!turn.decisions.empty()) return;
  for (const auto& [id, node] : turn.state.nodes) {
    if (node.fault_drain && !node.remedy) begin(turn, node);
  }
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
