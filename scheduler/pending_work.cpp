// What the agents of a job's nodes still owe: a pure function of State, so that repeating it after
// a reconnection or a crash is always right.
#include "scheduler/decide.h"
#include "scheduler/lookup.h"
#include "scheduler/rank_map.h"

namespace muster {

namespace {

bool is_stoppable(const Attempt& attempt, const AttemptNode& node) {
  return attempt.launched && !node.agent_changed && !node.is_quiet();
}

bool is_collectable(const AttemptNode& node) {
  return is_source_of_outputs(node) && !node.collected;
}

std::optional<Work> work_of(const Job& job, const Attempt& attempt, std::size_t index) {
  const AttemptNode& node = attempt.nodes[index];
  if (phase_of<Gathering>(attempt) && !node.checked) return CheckWork{};
  if (phase_of<Staging>(attempt) && !node.staged) return StageWork{};
  if (phase_of<Reserving>(attempt) && !node.ports) {
    const int count =
        ports_on_node(job.spec, static_cast<int>(attempt.nodes.size()), static_cast<int>(index));
    if (count > 0) return ReserveWork{count};
  }
  if (phase_of<Starting>(attempt) && !node.started && !node.agent_changed) return StartWork{};
  const auto* stopping = phase_of<Stopping>(attempt);
  if (stopping && is_stoppable(attempt, node)) return StopWork{stopping->why};
  if (phase_of<Collecting>(attempt) && is_collectable(node)) {
    return CollectWork{node.collect_failures};
  }
  return std::nullopt;
}

// A spare gets what the gang gets, a little later.
std::optional<Work> work_of_spare(const Attempt& attempt, const AttemptNode& spare) {
  if (is_ending(attempt)) return std::nullopt;
  if (!spare.checked) return CheckWork{};
  const bool is_fit = spare.checked->failures.empty();
  if (is_fit && !spare.staged && !phase_of<Gathering>(attempt)) return StageWork{};
  return std::nullopt;
}

bool is_linked(const Node& node) { return std::holds_alternative<Linked>(node.link); }

NodeWork clean_up_of(const Node& node) {
  const Unclean& unclean = *node.unclean;
  return {unclean.job, unclean.attempt, node.id, 0, StopWork{unclean.why}};
}

// Spares count on from the gang.
std::size_t held_nodes(const Attempt& attempt) {
  return attempt.nodes.size() + attempt.spares.size();
}

const AttemptNode& held_node(const Attempt& attempt, std::size_t index) {
  const std::size_t gang = attempt.nodes.size();
  return index < gang ? attempt.nodes[index] : attempt.spares[index - gang];
}

std::optional<NodeWork> owed_at(const Job& job, const Attempt& attempt, std::size_t index) {
  const bool is_spare = index >= attempt.nodes.size();
  const AttemptNode& node = held_node(attempt, index);
  auto work = is_spare ? work_of_spare(attempt, node) : work_of(job, attempt, index);
  if (!work) return std::nullopt;
  return NodeWork{job.id, attempt.id, node.id, static_cast<int>(index), std::move(*work)};
}

std::optional<NodeWork> owed_by(const State& state, const Node& node) {
  if (node.unclean) return clean_up_of(node);
  const Job* job = node.owner ? find_job(state, *node.owner) : nullptr;
  const Attempt* attempt = job ? active_attempt(*job) : nullptr;
  if (!attempt) return std::nullopt;
  for (std::size_t i = 0; i < held_nodes(*attempt); ++i) {
    if (held_node(*attempt, i).id == node.id) return owed_at(*job, *attempt, i);
  }
  return std::nullopt;
}

void add_work_of(const State& state, const Job& job, std::vector<NodeWork>& all) {
  const Attempt* attempt = active_attempt(job);
  if (!attempt) return;
  for (std::size_t i = 0; i < held_nodes(*attempt); ++i) {
    auto work = owed_at(job, *attempt, i);
    if (!work) continue;
    const Node* node = find_node(state, work->node);
    const bool is_its = node && node->owner == job.id && !node->unclean;
    if (is_its && is_linked(*node)) all.push_back(std::move(*work));
  }
}

}  // namespace

std::vector<NodeWork> pending_work(const State& state) {
  std::vector<NodeWork> all;
  for (const auto& [id, node] : state.nodes) {
    if (node.unclean && is_linked(node)) all.push_back(clean_up_of(node));
  }
  for (const auto& [id, job] : state.jobs) add_work_of(state, job, all);
  return all;
}

std::optional<NodeWork> pending_work(const State& state, const NodeId& id) {
  const Node* node = find_node(state, id);
  if (!node || !is_linked(*node)) return std::nullopt;
  return owed_by(state, *node);
}

std::set<NodeId> nodes_to_connect(const State& state) {
  std::set<NodeId> wanted;
  for (const auto& [id, node] : state.nodes) {
    if (node.owner || node.notice) wanted.insert(id);
  }
  return wanted;
}

}  // namespace muster
