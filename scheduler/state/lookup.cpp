#include "scheduler/state/lookup.h"

#include <algorithm>

#include "scheduler/state/limits.h"

namespace muster {

namespace {

template <class Map, class Key>
auto* find_in(Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

template <class Nodes>
auto* find_among(Nodes& nodes, const NodeId& id) {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const AttemptNode& node) {
    return node.id == id && !node.released;
  });
  return found == nodes.end() ? nullptr : &*found;
}

template <class AnyState>
auto find_attempt_in(AnyState& state, const JobId& job_id, AttemptId attempt_id) {
  auto* job = find_job(state, job_id);
  auto* attempt = job ? active_attempt(*job) : nullptr;
  return attempt && attempt->id == attempt_id ? attempt : nullptr;
}

template <class Ranks>
auto ranks_at(Ranks& ranks, std::ptrdiff_t node_index) {
  const auto here = std::ranges::equal_range(ranks, node_index, {}, &Rank::node_index);
  return std::span(here.begin(), here.end());
}

}  // namespace

const Job* find_job(const State& state, const JobId& id) {
  return find_in(state.jobs, id);
}
Job* find_job(State& state, const JobId& id) {
  return find_in(state.jobs, id);
}

const Attempt* active_attempt(const Job& job) {
  const auto* active = std::get_if<Active>(&job.phase);
  return active ? &active->attempt : nullptr;
}

Attempt* active_attempt(Job& job) {
  auto* active = std::get_if<Active>(&job.phase);
  return active ? &active->attempt : nullptr;
}

const Attempt* find_attempt(const State& state, const JobId& job, AttemptId attempt) {
  return find_attempt_in(state, job, attempt);
}

Attempt* find_attempt(State& state, const JobId& job, AttemptId attempt) {
  return find_attempt_in(state, job, attempt);
}

const AttemptNode* find_node(const Attempt& attempt, const NodeId& id) {
  return find_among(attempt.nodes, id);
}

AttemptNode* find_node(Attempt& attempt, const NodeId& id) {
  return find_among(attempt.nodes, id);
}

AttemptNode* find_spare(Attempt& attempt, const NodeId& id) {
  return find_among(attempt.spares, id);
}

const AttemptNode* find_spare(const Attempt& attempt, const NodeId& id) {
  return find_among(attempt.spares, id);
}

bool was_passed_over(const Attempt& attempt, const NodeId& id) {
  return std::any_of(attempt.passed_over.begin(), attempt.passed_over.end(),
                     [&](const NodeReplaced& passed) { return passed.old_node == id; });
}

bool is_ending(const Attempt& attempt) {
  return phase_of<Stopping>(attempt) || phase_of<Collecting>(attempt);
}

const AttemptNode& node_of(const Attempt& attempt, const Rank& rank) {
  return attempt.nodes.at(static_cast<std::size_t>(rank.node_index));
}

std::span<Rank> ranks_on(Attempt& attempt, const NodeId& id) {
  const AttemptNode* node = find_node(attempt, id);
  return node ? ranks_at(attempt.ranks, node - attempt.nodes.data()) : std::span<Rank>{};
}

std::span<const Rank> ranks_on(const Attempt& attempt, const NodeId& id) {
  const AttemptNode* node = find_node(attempt, id);
  return node ? ranks_at(attempt.ranks, node - attempt.nodes.data()) : std::span<const Rank>{};
}

std::span<const Rank> ranks_on(const Attempt& attempt, std::size_t node_index) {
  return ranks_at(attempt.ranks, static_cast<std::ptrdiff_t>(node_index));
}

bool may_have_run(const Attempt& attempt, std::size_t node_index) {
  const AttemptNode& node = attempt.nodes.at(node_index);
  const bool has_ranks = !ranks_on(attempt, node_index).empty();
  if (!attempt.launched || !node.may_have_started() || !has_ranks) return false;
  const bool was_refused = node.started && !node.started->error.empty();
  const bool was_never_asked = node.fenced && node.fenced->proof == FenceProof::never_started;
  return !was_refused && !was_never_asked;
}

const Node* find_node(const State& state, const NodeId& id) {
  return find_in(state.nodes, id);
}

bool has_node(const ComputeTarget& target, const NodeId& id) {
  return std::any_of(target.nodes.begin(), target.nodes.end(),
                     [&](const NodeAddress& address) { return address.id == id; });
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

const Unlinked* unlinked(const State& state, const NodeId& id) {
  const Node* node = find_node(state, id);
  return node ? std::get_if<Unlinked>(&node->link) : nullptr;
}

bool is_unfinished(const Rank& rank) {
  return std::holds_alternative<RankWaiting>(rank.state) ||
         std::holds_alternative<RankRunning>(rank.state);
}

bool is_source_of_outputs(const AttemptNode& node) {
  return node.started && node.started->error.empty() && node.is_quiet() && !node.unkillable_since &&
         !node.is_unproven();
}

bool has_delivered(const AttemptNode& node) {
  return node.collected && node.collected->error.empty();
}

bool may_deliver(const AttemptNode& node) {
  return is_source_of_outputs(node) && !has_delivered(node) &&
         node.collect_failures < collect_tries;
}

bool is_undecided(const Job& job) {
  return std::holds_alternative<Queued>(job.phase) && !job.past.empty() &&
         !job.past.back().reschedule.has_value();
}

}  // namespace muster
