// Finding things in State. Pointers live until the next `apply`; null: no such thing.
#pragma once

#include <span>

#include "scheduler/state/state.h"

namespace muster {

const Job* find_job(const State& state, const JobId& id);
Job* find_job(State& state, const JobId& id);

// The job's attempt that is going on.
const Attempt* active_attempt(const Job& job);
Attempt* active_attempt(Job& job);
// The same, only if it has this number: late news about an older attempt find nothing.
const Attempt* find_attempt(const State& state, const JobId& job, AttemptId attempt);
Attempt* find_attempt(State& state, const JobId& job, AttemptId attempt);
// A node that was released from it is not among them.
const AttemptNode* find_node(const Attempt& attempt, const NodeId& node);
AttemptNode* find_node(Attempt& attempt, const NodeId& node);
AttemptNode* find_spare(Attempt& attempt, const NodeId& node);
const AttemptNode* find_spare(const Attempt& attempt, const NodeId& node);
bool was_passed_over(const Attempt& attempt, const NodeId& node);  // another took its place
// Ranks lie node by node. A rank knows its node also when that was released.
const AttemptNode& node_of(const Attempt& attempt, const Rank& rank);
std::span<Rank> ranks_on(Attempt& attempt, const NodeId& node);
std::span<const Rank> ranks_on(const Attempt& attempt, const NodeId& node);
std::span<const Rank> ranks_on(const Attempt& attempt, std::size_t node_index);

// Its ranks were started there, or nobody can tell that they were not.
bool may_have_run(const Attempt& attempt, std::size_t node_index);

const Node* find_node(const State& state, const NodeId& id);
bool has_node(const ComputeTarget& target, const NodeId& id);
bool is_spare(const State& state, const Node& node);  // of the job that owns it
// The agent that answers there now.
const LinkUp* linked_agent(const State& state, const NodeId& id);
const LinkUp* last_agent(const Node& node);  // that one, or the one before its link was lost
const Unlinked* unlinked(const State& state, const NodeId& id);

template <class T>
const T* phase_of(const Attempt& attempt) {
  return std::get_if<T>(&attempt.phase);
}

// It is being ended: its nodes prove themselves quiet, outputs are collected.
bool is_ending(const Attempt& attempt);

bool is_unfinished(const Rank& rank);  // waiting or running

// Its ranks were started and can write no more, so that what they wrote can be copied.
bool is_source_of_outputs(const AttemptNode& node);
// Everything it wrote has been copied; or it never will be, if this is false for both.
bool has_delivered(const AttemptNode& node);
bool may_deliver(const AttemptNode& node);

// Its latest attempt is over and the restart policy has not spoken yet.
bool is_undecided(const Job& job);

}  // namespace muster
