#include "scheduler/node/status.h"

#include <algorithm>

#include "scheduler/node/remediation_run.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

// ---- evidence ---------------------------------------------------------------------------------

// Its agent ended the ranks before anybody told it to: it had no word from its controller for the
// lease, and that is more often the controller's fault than the node's.
bool was_left_alone(const Attempt& attempt, const NodeId& id) {
  const AttemptNode* node = find_node(attempt, id);
  std::optional<Time> told_at = attempt.stopped_at;
  if (node && node->departure) told_at = node->departure->at;
  const auto by_itself = [&](const Rank& rank) {
    const auto* done = std::get_if<RankDone>(&rank.state);
    return done && done->exit.asked_to_stop && told_at && from_ms(done->exit.at_ms) < *told_at;
  };
  const auto ranks = ranks_on(attempt, id);
  return std::ranges::any_of(ranks, by_itself);
}

bool is_class_of_nodes(FailureClass failure_class) {
  return failure_class == FailureClass::infra || failure_class == FailureClass::hw ||
         failure_class == FailureClass::hang;
}

// Only the program's own words speak of its node: a wrong host name reads like a broken resolver.
bool is_hearsay(const AttemptCause& cause) {
  return cause.failure_class == FailureClass::infra && cause.rules.rule;
}

bool is_secondary(const AttemptCause& cause) {
  return cause.rules.rule && cause.rules.rule->cascade;
}

// It may be the job's own doing, as long as the job has not worked elsewhere: a program that skips
// a collective hangs like one whose node does.
bool needs_proof(const AttemptCause& cause) {
  return cause.reason == StopReason::start_failed || is_hearsay(cause) ||
         cause.failure_class == FailureClass::hang;
}

bool may_be_the_nodes(const AttemptCause& cause) {
  return cause.first_node && is_class_of_nodes(cause.failure_class) && !is_secondary(cause);
}

// With the node or what it does in place of the one that the cause is about.
bool works(const Attempt& attempt, const AttemptCause& cause) {
  if (is_ending(attempt)) return true;
  return phase_of<Running>(attempt) &&
         (cause.reason == StopReason::start_failed || attempt.stepped_at);
}

// ---- setting nodes aside ----------------------------------------------------------------------

int set_aside_lately(const Turn& turn, const ComputeTarget& target) {
  const Time begin = turn.moment.now() - breaker_window;
  int count = 0;
  for (const NodeAddress& address : target.nodes) {
    const Node* node = find_node(turn.state, address.id);
    if (node && node->set_aside && node->set_aside->since > begin) count += 1;
  }
  for (const Decision& decision : turn.decisions) {
    if (std::holds_alternative<NodeSetAside>(decision)) count += 1;
  }
  return count;
}

int set_aside_most(const ComputeTarget& target) {
  const auto nodes = static_cast<int>(target.nodes.size());
  return std::max(breaker_nodes, nodes * breaker_percent / 100);
}

const Breaker* breaker_of(const State& state, const ComputeTarget& target) {
  const auto found = state.breakers.find(target.name);
  return found == state.breakers.end() ? nullptr : &found->second;
}

std::vector<NodeEvidence> since(const std::optional<Time>& reset,
                                std::vector<NodeEvidence> evidence) {
  if (!reset) return evidence;
  std::erase_if(evidence, [&](const NodeEvidence& piece) { return piece.at <= *reset; });
  return evidence;
}

void open_breaker(Turn& turn, const Job& job, const NodeId& node) {
  const auto most = static_cast<std::size_t>(set_aside_most(job.target));
  turn.decide(
      BreakerOpened{job.target.name, node.value + " would be cordoned too: more than " +
                                         count_text(most, "node") + " of " + job.target.name +
                                         " within " + duration_text(breaker_window) +
                                         " look like one fault of network, storage or power"});
}

bool opens_breaker(const Turn& turn) {
  return std::ranges::any_of(turn.decisions, [](const Decision& decision) {
    const auto* opened = std::get_if<BreakerOpened>(&decision);
    return opened && !opened->is_check;
  });
}

std::string what_it_broke(const std::vector<NodeEvidence>& evidence) {
  std::vector<std::string> jobs;
  for (const NodeEvidence& piece : evidence) jobs.push_back(piece.job.value + ": " + piece.what);
  return "it broke " + count_text(evidence.size(), "job") + " (" + list_text(jobs) + ")";
}

// One that nothing could take the place of stays in use.
bool has_another(Turn& turn, const ComputeTarget& target, const NodeId& id) {
  return std::ranges::any_of(target.nodes, [&](const NodeAddress& other) {
    return other.id != id && !refusal_of(find_node(turn.state, other.id), turn.moment);
  });
}

void set_aside_if_bad(Turn& turn, const Job& job, const NodeId& id,
                      const std::vector<NodeEvidence>& all) {
  const Time now = turn.moment.now();
  const Node* node = find_node(turn.state, id);
  if (node && is_cordoned(*node, turn.moment)) return;
  const Breaker* breaker = breaker_of(turn.state, job.target);
  const auto evidence = since(breaker ? breaker->reset_at : std::nullopt, all);
  if (failure_score_of(evidence, now) < suspicion_limit || !has_another(turn, job.target, id))
    return;
  if ((breaker && breaker->open_since) || opens_breaker(turn)) return;
  if (set_aside_lately(turn, job.target) >= set_aside_most(job.target)) {
    return open_breaker(turn, job, id);
  }
  turn.decide(
      NodeSetAside{id, what_it_broke(evidence), faded_below(evidence, suspicion_limit, now)});
}

void remember(Turn& turn, const Job& job, const NodeId& id, NodeEvidence piece) {
  const Node* node = find_node(turn.state, id);
  NodeSuspected suspected;
  suspected.node = id;
  suspected.evidence =
      with_evidence(node ? node->evidence : std::vector<NodeEvidence>{}, std::move(piece));
  const std::vector<NodeEvidence> evidence = suspected.evidence;
  turn.decide(std::move(suspected));
  set_aside_if_bad(turn, job, id, evidence);
}

bool has_evidence_of(const Node& node, const JobId& job) {
  return std::ranges::any_of(node.evidence,
                             [&](const NodeEvidence& piece) { return piece.job == job; });
}

}  // namespace

void remember_failure(Turn& turn, const Job& job, const Attempt& attempt,
                      const AttemptCause& cause) {
  if (!may_be_the_nodes(cause) || needs_proof(cause)) return;
  if (was_left_alone(attempt, *cause.first_node)) return;
  remember(turn, job, *cause.first_node, {job.id, turn.moment.now(), cause.sentence});
}

void remember_proven(Turn& turn, const Job& job, const Attempt& attempt) {
  if (job.past.empty()) return;
  const PastAttempt& past = job.past.back();
  if (!may_be_the_nodes(past.cause) || !needs_proof(past.cause)) return;
  if (!works(attempt, past.cause)) return;
  const NodeId& id = *past.cause.first_node;
  const Node* node = find_node(turn.state, id);
  if (!node || find_node(attempt, id) || has_evidence_of(*node, job.id)) return;
  if (node->cleared_at && past.ended_at <= *node->cleared_at) return;
  remember(turn, job, id, {job.id, past.ended_at, past.cause.sentence});
}

// ---- standing ---------------------------------------------------------------------------------

bool is_leaving(const Node& node, Moment& moment) {
  if (!node.notice) return false;
  const LeaveNotice& notice = *node.notice;
  const auto* linked = std::get_if<Linked>(&node.link);
  if (linked && linked->up.agent_id == notice.agent_id) return true;
  if (linked) return !moment.reached(notice.leaves_at.value_or(notice.since) + notice_unsaid);
  const Time ends =
      notice.leaves_at ? *notice.leaves_at + notice_outlives : notice.since + endless_notice;
  return !moment.reached(ends);
}

bool is_cordoned(const Node& node, Moment& moment) {
  return node.set_aside && !moment.reached(node.set_aside->until);
}

std::string notice_text(const NodeId& node, const LeaveNotice& notice, Time now) {
  std::string when = " was asked to leave";
  if (notice.leaves_at && *notice.leaves_at > now) {
    when = " leaves in " + duration_text(*notice.leaves_at - now);
  }
  return node.value + when + " (notice by " + notice.source + ")";
}

std::optional<std::string> refusal_of(const Node* node, Moment& moment) {
  if (!node) return std::nullopt;
  if (node->drained) return node->id.value + " is drained: " + node->drain_reason;
  if (const auto what = remedy_text(*node)) {
    return node->id.value + " " + *what + ": " + node->remedy->what.fault.what;
  }
  if (node->fault_drain) return node->id.value + " is unfit: " + node->fault_drain->fault.what;
  if (is_leaving(*node, moment)) {
    const Time when = node->notice->since;  // said once, not anew every second
    return notice_text(node->id, *node->notice, when);
  }
  if (is_cordoned(*node, moment)) {
    return node->id.value + " was cordoned by muster: " + node->set_aside->reason;
  }
  return std::nullopt;
}

}  // namespace muster
