// Finding things in State. Pointers live until the next `apply`; null: no such thing.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

// What is found may be changed where what holds it may.
template <class T, class Of>
concept Either = std::same_as<std::remove_const_t<T>, Of>;

auto* find_job(Either<State> auto& state, const JobId& id) {
  const auto found = state.jobs.find(id);
  return found == state.jobs.end() ? nullptr : &found->second;
}

bool is_released(const AttemptNode& node);  // nobody's any more

// The job's attempt that is going on.
auto* active_attempt(Either<Job> auto& job) {
  auto* active = std::get_if<Active>(&job.phase);
  return active ? &active->attempt : nullptr;
}
// The same, only if it has this number: late news about an older attempt find nothing.
auto* find_attempt(Either<State> auto& state, const JobId& job_id, AttemptId number) {
  auto* job = find_job(state, job_id);
  auto* attempt = job ? active_attempt(*job) : nullptr;
  return attempt && attempt->id == number ? attempt : nullptr;
}
// The highest step of the job's past attempts; 0: none is known.
std::int64_t step_reached(const Job& job);
// A node that was released from it is not among them.
auto* find_node(Either<Attempt> auto& attempt, const NodeId& id) {
  const auto found = std::ranges::find_if(
      attempt.nodes, [&](const AttemptNode& node) { return node.id == id && !is_released(node); });
  return found == attempt.nodes.end() ? nullptr : &*found;
}
auto* find_spare(Either<Attempt> auto& attempt, const NodeId& id) {
  const auto found = std::ranges::find(attempt.spares, id, &AttemptNode::id);
  return found == attempt.spares.end() ? nullptr : &*found;
}
bool was_rejected(const Attempt& attempt, const NodeId& node);  // another took its place
// Ranks lie node by node. A rank knows its node also when that was released.
const AttemptNode& node_of(const Attempt& attempt, const Rank& rank);
auto ranks_on(Either<Attempt> auto& attempt, std::size_t node_index) {
  const auto index = static_cast<int>(node_index);
  return std::span(std::ranges::equal_range(attempt.ranks, index, {}, &Rank::node_index));
}
auto ranks_on(Either<Attempt> auto& attempt, const NodeId& id) {
  const auto* node = find_node(attempt, id);
  const auto beyond = attempt.nodes.size();
  return ranks_on(attempt, node ? static_cast<std::size_t>(node - attempt.nodes.data()) : beyond);
}

// Its ranks were started there, or nobody can tell that they were not.
bool may_have_run(const Attempt& attempt, std::size_t node_index);

const Node* find_node(const State& state, const NodeId& id);
bool has_node(const ComputeTarget& target, const NodeId& id);
bool has_node(const std::vector<NodeId>& nodes, const NodeId& id);
bool is_spare(const State& state, const Node& node);  // of the job that owns it
// The agent that answers there now.
const LinkUp* linked_agent(const State& state, const NodeId& id);
const LinkUp* last_agent(const Node& node);  // that one, or the one before its link was lost
const Unlinked* unlinked(const State& state, const NodeId& id);
// What the agent of a job's node holds, as far as the journal knows.
Milliseconds lease_of(const State& state, const Job& job, const NodeId& id);
// For how long after its last word a node is waited for: soon its lease is over and its ranks gone.
// What its agent counts from is a tenth of the lease older (two beats of its connection).
Milliseconds patience_with(const State& state, const Job& job, const NodeId& id);

template <class T>
const T* phase_of(const Attempt& attempt) {
  return std::get_if<T>(&attempt.phase);
}

// It is being ended: its nodes prove themselves quiet, outputs are collected.
bool is_ending(const Attempt& attempt);
// Why; null: it is not, or an old journal does not say it.
const StopBegun* why_ending(const Attempt& attempt);

bool is_unfinished(const Rank& rank);  // waiting or running

// What a node's part in an attempt has come to.
bool is_active(const AttemptNode& node);     // it does not go
bool is_preparing(const AttemptNode& node);  // taken while the others ran, its ranks not started
bool is_getting_ready(const AttemptNode& node);  // started so, and not all wait to be members
bool may_have_started(const Attempt& attempt, const AttemptNode& node);  // its ranks
bool has_started(const AttemptNode& node);                               // told so, without error
bool is_agent_known(const AttemptNode& node);     // that was told to start them
bool has_changed_agent(const AttemptNode& node);  // another answers: the ranks here are gone
bool has_rebooted(const AttemptNode& node);       // as has its host
bool is_clean(const AttemptNode& node);
std::optional<Time> unkillable_since(const AttemptNode& node);
// Not waited for any more, without a proof that its ranks are gone.
bool is_unproven(const AttemptNode& node);
// Nothing of it can run or write here any more, or nobody waits for that.
bool is_quiet(const AttemptNode& node);
const CollectionFailed* collection_failure(const AttemptNode& node);

// Its ranks were started and can write no more, so that what they wrote can be copied.
bool is_source_of_outputs(const AttemptNode& node);
// Everything it wrote has been copied; or it never will be, if this is false for both.
bool has_delivered(const AttemptNode& node);
bool may_deliver(const AttemptNode& node);

// Its latest attempt is over and the restart policy has not spoken yet.
bool is_undecided(const Job& job);

// The name of a health check's breaker: "ib.phys@lab", of the check on the nodes of one target;
// "ib.phys@", on nodes that no live job's target has; "ib.phys", wherever: what a person may say to
// arm them all, and what journals from before there was one for each target say. Pure.

std::string breaker_name(std::string_view check, std::string_view target);

// "ib.phys"
std::string_view check_of_breaker(std::string_view name);

// What arms `said` arms `name` too: "ib.phys" that of each target.
bool names_breaker(std::string_view said, std::string_view name);

// Names of the live jobs' targets that have the node.
std::set<std::string> targets_of(const State& state, const NodeId& node);

// Whether it is about nodes of these targets. Of no target: one of no target.
bool is_breaker_of(std::string_view name, const std::set<std::string>& targets);

// The name of what a job is doing, in Azure's words.

// NotStarted, Queued, Provisioning (nodes are being connected), Preparing (checks and staging),
// Starting, Running, Finalizing. An ended job has its JobEndState instead.
const char* job_state_name(const State& state, const Job& job);

// The same from the job alone: Preparing also while nodes are being connected.
const char* job_state_name(const Job& job);

// What a node did to jobs, remembered across them. A job that it broke weighs 1, half of that a
// week later; a job counts once. Pure, in whole numbers: the same on every machine.

// In thousandths of a job.
std::int64_t failure_score_of(const std::vector<NodeEvidence>& evidence, Time now);

// With one piece more: the newest of each job, and no more than anybody reads.
std::vector<NodeEvidence> with_evidence(std::vector<NodeEvidence> evidence, NodeEvidence piece);

// When it will have faded below `limit`; `now` or earlier: it has.
Time faded_below(const std::vector<NodeEvidence>& evidence, std::int64_t limit, Time now);

// What speaks against the node since somebody said last that it is sound.
bool is_suspect(const Node& node, Time now);

}  // namespace muster
