#include "scheduler/state/lookup.h"

#include "scheduler/state/limits.h"

namespace muster {

namespace {

constexpr char before_target = '@';

const char* phase_name(const Attempt& attempt) {
  constexpr const char* names[] = {"Preparing", "Preparing",  "Starting",  "Starting",
                                   "Running",   "Finalizing", "Finalizing"};
  return names[attempt.phase.index()];
}

constexpr std::int64_t one_job = 1000;

// Straight between two halvings, so that no floating point decides.
std::int64_t weight_at_age(Milliseconds age) {
  const std::int64_t half_life = suspicion_half_life.count();
  const std::int64_t passed = std::max<std::int64_t>(0, age.count());
  const std::int64_t halvings = passed / half_life;
  if (halvings >= 10) return 0;
  const std::int64_t rest = passed % half_life;
  return (one_job >> halvings) * (2 * half_life - rest) / (2 * half_life);
}

}  // namespace

std::int64_t step_reached(const Job& job) {
  std::int64_t reached = 0;
  for (const PastAttempt& past : job.past) reached = std::max(reached, past.last_step.value_or(0));
  return reached;
}

bool was_rejected(const Attempt& attempt, const NodeId& id) {
  return std::ranges::any_of(attempt.rejected_nodes,
                             [&](const NodeReplaced& passed) { return passed.old_node == id; });
}

bool is_ending(const Attempt& attempt) {
  return phase_of<Stopping>(attempt) || phase_of<Collecting>(attempt);
}

const StopBegun* why_ending(const Attempt& attempt) {
  if (const auto* stopping = phase_of<Stopping>(attempt)) return &stopping->why;
  const auto* collecting = phase_of<Collecting>(attempt);
  return collecting && collecting->why ? &*collecting->why : nullptr;
}

const AttemptNode& node_of(const Attempt& attempt, const Rank& rank) {
  return attempt.nodes.at(static_cast<std::size_t>(rank.node_index));
}

bool may_have_run(const Attempt& attempt, std::size_t node_index) {
  const AttemptNode& node = attempt.nodes.at(node_index);
  const bool has_ranks = !ranks_on(attempt, node_index).empty();
  if (!may_have_started(attempt, node) || !has_ranks) return false;
  const bool was_refused = node.started && !node.started->error.empty();
  return !was_refused && node.fenced != FenceProof::never_started;
}

const Node* find_node(const State& state, const NodeId& id) {
  const auto found = state.nodes.find(id);
  return found == state.nodes.end() ? nullptr : &found->second;
}

bool has_node(const ComputeTarget& target, const NodeId& id) {
  return std::ranges::any_of(target.nodes,
                             [&](const NodeAddress& address) { return address.id == id; });
}

bool has_node(const std::vector<NodeId>& nodes, const NodeId& id) {
  return std::ranges::find(nodes, id) != nodes.end();
}

bool is_spare(const State& state, const Node& node) {
  const Job* job = node.owner ? find_job(state, *node.owner) : nullptr;
  const Attempt* attempt = job ? active_attempt(*job) : nullptr;
  return attempt && find_spare(*attempt, node.id);
}

const LinkUp* linked_agent(const State& state, const NodeId& id) {
  const Node* node = find_node(state, id);
  const auto* linked = node ? std::get_if<Linked>(&node->link) : nullptr;
  return linked ? &linked->up : nullptr;
}

const LinkUp* last_agent(const Node& node) {
  if (const auto* linked = std::get_if<Linked>(&node.link)) return &linked->up;
  const auto* lost = std::get_if<Unlinked>(&node.link);
  return lost && lost->last ? &*lost->last : nullptr;
}

Milliseconds lease_of(const State& state, const Job& job, const NodeId& id) {
  const Node* node = find_node(state, id);
  const LinkUp* agent = node ? last_agent(*node) : nullptr;
  if (agent && agent->lease > Milliseconds{0}) return agent->lease;
  return job.target.lease.value_or(far_lease);
}

Milliseconds patience_with(const State& state, const Job& job, const NodeId& id) {
  return std::min(job.target.unreachable, lease_of(state, job, id) * 9 / 10);
}

const Unlinked* unlinked(const State& state, const NodeId& id) {
  const Node* node = find_node(state, id);
  return node ? std::get_if<Unlinked>(&node->link) : nullptr;
}

bool is_unfinished(const Rank& rank) {
  return std::holds_alternative<RankWaiting>(rank.state) ||
         std::holds_alternative<RankRunning>(rank.state);
}

bool is_active(const AttemptNode& node) {
  return !node.departure;
}

bool is_released(const AttemptNode& node) {
  return node.departure && node.departure->is_released;
}

bool is_preparing(const AttemptNode& node) {
  return node.join && !node.join->begun;
}

bool is_getting_ready(const AttemptNode& node) {
  return node.join && node.join->begun && !node.join->ready_at && node.membership.since == 0;
}

bool may_have_started(const Attempt& attempt, const AttemptNode& node) {
  return attempt.launched && !is_preparing(node);
}

bool has_started(const AttemptNode& node) {
  return node.started && node.started->error.empty();
}

bool is_agent_known(const AttemptNode& node) {
  return node.agent && !node.agent->id.empty();
}

bool has_changed_agent(const AttemptNode& node) {
  return node.agent && node.agent->change != AgentChange::none;
}

bool has_rebooted(const AttemptNode& node) {
  return node.agent && node.agent->change == AgentChange::rebooted;
}

bool is_clean(const AttemptNode& node) {
  return std::holds_alternative<ProvenClean>(node.stopped);
}

std::optional<Time> unkillable_since(const AttemptNode& node) {
  const auto* here = std::get_if<Unkillable>(&node.stopped);
  return here ? std::optional(here->since) : std::nullopt;
}

bool is_unproven(const AttemptNode& node) {
  return node.fenced == FenceProof::none && !is_clean(node);
}

bool is_quiet(const AttemptNode& node) {
  return is_clean(node) || node.fenced;
}

const CollectionFailed* collection_failure(const AttemptNode& node) {
  return std::get_if<CollectionFailed>(&node.collection.state);
}

bool is_source_of_outputs(const AttemptNode& node) {
  return has_started(node) && is_quiet(node) && !unkillable_since(node) && !is_unproven(node);
}

bool has_delivered(const AttemptNode& node) {
  return std::holds_alternative<Collected>(node.collection.state);
}

bool may_deliver(const AttemptNode& node) {
  return is_source_of_outputs(node) && !has_delivered(node) &&
         node.collection.failures < collect_tries;
}

bool is_undecided(const Job& job) {
  return std::holds_alternative<Queued>(job.phase) && !job.past.empty() &&
         !job.past.back().reschedule.has_value();
}

std::string breaker_name(std::string_view check, std::string_view target) {
  return std::string(check) + before_target + std::string(target);
}

std::string_view check_of_breaker(std::string_view name) {
  return name.substr(0, name.find(before_target));
}

bool names_breaker(std::string_view said, std::string_view name) {
  const bool has_target = name.find(before_target) != std::string_view::npos;
  return said == name || (has_target && check_of_breaker(name) == said);
}

std::set<std::string> targets_of(const State& state, const NodeId& node) {
  std::set<std::string> names;
  for (const auto& [id, job] : state.jobs) {
    if (has_node(job.target, node)) names.insert(job.target.name);
  }
  return names;
}

bool is_breaker_of(std::string_view name, const std::set<std::string>& targets) {
  const std::size_t at = name.find(before_target);
  if (at == std::string_view::npos) return true;
  const std::string target(name.substr(at + 1));
  return targets.empty() ? target.empty() : targets.contains(target);
}

const char* job_state_name(const State& state, const Job& job) {
  const Attempt* attempt = active_attempt(job);
  if (!attempt || !phase_of<Gathering>(*attempt)) return job_state_name(job);
  const bool connected = std::ranges::all_of(attempt->nodes, [&](const AttemptNode& node) {
    return linked_agent(state, node.id) != nullptr;
  });
  return connected ? "Preparing" : "Provisioning";
}

const char* job_state_name(const Job& job) {
  if (const Attempt* attempt = active_attempt(job)) return phase_name(*attempt);
  const auto* queued = std::get_if<Queued>(&job.phase);
  const bool untouched = queued && queued->reason.empty() && job.past.empty();
  return untouched ? "NotStarted" : "Queued";
}

std::int64_t failure_score_of(const std::vector<NodeEvidence>& evidence, Time now) {
  std::int64_t sum = 0;
  for (const NodeEvidence& piece : evidence) sum += weight_at_age(now - piece.at);
  return sum;
}

std::vector<NodeEvidence> with_evidence(std::vector<NodeEvidence> evidence, NodeEvidence piece) {
  std::erase_if(evidence, [&](const NodeEvidence& old) { return old.job == piece.job; });
  evidence.push_back(std::move(piece));
  if (evidence.size() > evidence_kept) evidence.erase(evidence.begin());
  return evidence;
}

Time faded_below(const std::vector<NodeEvidence>& evidence, std::int64_t limit, Time now) {
  constexpr Milliseconds step{3'600'000};
  Time when = now;
  while (failure_score_of(evidence, when) >= limit) when += step;
  return when;
}

bool is_suspect(const Node& node, Time now) {
  return !node.evidence.empty() && failure_score_of(node.evidence, now) >= one_job / 2;
}

}  // namespace muster
