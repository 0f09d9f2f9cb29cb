#include "scheduler/node/remediation.h"

#include <algorithm>

#include "scheduler/model/node_fault.h"
#include "scheduler/node/remediation_steps.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

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

}  // namespace

void conclude_remedy(Turn& turn, const Node& node) {
  if (node.remedy->what.step == RemedyStep::reset) return conclude_reset(turn, node);
  conclude_reboot(turn, node);
}

}  // namespace muster
