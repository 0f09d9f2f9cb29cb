// What the agents of a job's nodes still owe: a pure function of State, so that repeating it after
// a reconnection or a crash is always right.
#include "scheduler/decide/decide.h"
#include "scheduler/placement/allocate.h"
#include "scheduler/placement/candidates.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"

namespace muster {

namespace {

bool is_stoppable(const Attempt& attempt, const AttemptNode& node) {
  return may_have_started(attempt, node) && !has_changed_agent(node) && !is_quiet(node);
}

bool is_collectable(const AttemptNode& node) {
  return is_source_of_outputs(node) && std::holds_alternative<NotCollected>(node.collection.state);
}

bool awaits_start(const AttemptNode& node) {
  return !node.started && !has_changed_agent(node);
}

std::optional<Work> reservation(int count) {
  if (count == 0) return std::nullopt;
  return ReserveWork{count};
}

// Before the others go on without it, its ranks are told; then they are given time to end.
std::optional<Work> work_of_leaving(const Attempt& attempt, const AttemptNode& node) {
  if (is_stoppable(attempt, node)) {
    if (node.membership.told < attempt.members.epoch) return MembersWork{};
    return StopWork{as_stop(node.departure->why), true};
  }
  if (is_collectable(node)) return CollectWork{node.collection.failures};
  return std::nullopt;
}

std::optional<Work> work_of_joiner(const State& state, const Job& job, const AttemptNode& node) {
  if (!node.checked) return CheckWork{};
  if (!node.checked->failures.empty()) return std::nullopt;
  if (!node.staged) return StageWork{};
  if (!node.staged->error.empty()) return std::nullopt;
  if (!node.ports) return reservation(processes_on(state, job.spec, node.id));
  if (node.join->begun && awaits_start(node)) return StartWork{};
  return std::nullopt;
}

std::optional<Work> work_of_member(const Attempt& attempt, const AttemptNode& node) {
  if (awaits_start(node)) return StartWork{};
  const Membership& known = node.membership;
  const bool is_old = known.told < attempt.members.epoch && !has_changed_agent(node);
  if (is_old && known.error.empty()) return MembersWork{};
  return std::nullopt;
}

// Of an elastic attempt from its launch to its end.
std::optional<Work> work_while_elastic(const State& state, const Job& job, const Attempt& attempt,
                                       const AttemptNode& node) {
  if (node.departure) return work_of_leaving(attempt, node);
  if (node.membership.is_member) return work_of_member(attempt, node);
  return is_joiner(node) ? work_of_joiner(state, job, node) : std::nullopt;
}

std::optional<Work> work_of(const State& state, const Job& job, const Attempt& attempt,
                            std::size_t index) {
  const AttemptNode& node = attempt.nodes[index];
  if (phase_of<Gathering>(attempt) && !node.checked) return CheckWork{};
  if (phase_of<Staging>(attempt) && !node.staged) return StageWork{};
  if (phase_of<Reserving>(attempt) && !node.ports) {
    return reservation(ports_wanted(state, job, attempt, index));
  }
  const auto* stopping = phase_of<Stopping>(attempt);
  if (stopping && is_stoppable(attempt, node)) return StopWork{stopping->why};
  if (phase_of<Collecting>(attempt) && is_collectable(node)) {
    return CollectWork{node.collection.failures};
  }
  if (is_ending(attempt)) return std::nullopt;
  if (attempt.has_members()) return work_while_elastic(state, job, attempt, node);
  const bool starts = phase_of<Starting>(attempt) && !is_live(job.spec);
  if (starts && awaits_start(node)) return StartWork{};
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

bool is_linked(const Node& node) {
  return std::holds_alternative<Linked>(node.link);
}

NodeWork clean_up_of(const Node& node) {
  return {node.unclean->job, node.unclean->attempt, node.id, 0, StopWork{*node.unclean}};
}

void add_work_of(const State& state, const Job& job, std::vector<NodeWork>& all) {
  const Attempt* attempt = active_attempt(job);
  if (!attempt) return;
  const auto add = [&](const AttemptNode& held, std::size_t index, std::optional<Work> work) {
    const Node* node = find_node(state, held.id);
    const bool is_its = node && node->owner == job.id && !node->unclean;
    if (!work || !is_its || !is_linked(*node)) return;
    all.push_back({job.id, attempt->id, held.id, static_cast<int>(index), std::move(*work)});
  };
  const std::size_t gang = attempt->nodes.size();
  for (std::size_t i = 0; i < gang; ++i) {
    const AttemptNode& node = attempt->nodes[i];
    if (!is_released(node)) add(node, i, work_of(state, job, *attempt, i));
  }
  for (std::size_t i = 0; i < attempt->spares.size(); ++i) {
    const AttemptNode& spare = attempt->spares[i];
    add(spare, gang + i, work_of_spare(*attempt, spare));
  }
}

// Nodes that could come to a running attempt that has room: nobody else would find out that they
// are there. Not those that only a person brings back.
void add_growth_of(const State& state, const Job& job, std::set<NodeId>& wanted) {
  const Attempt* attempt = active_attempt(job);
  if (!attempt || !is_elastic(job.spec) || !phase_of<Running>(*attempt)) return;
  if (active_nodes(*attempt) >= node_range(job.spec).most) return;
  for (const NodeAddress& address : job.target.nodes) {
    const Node* node = find_node(state, address.id);
    const auto* link = unlinked(state, address.id);
    const bool is_given_up = link && is_permanent(link->failure.kind);
    if (node && !node->drained && !is_given_up && !is_placed_out(job, address.id)) {
      wanted.insert(address.id);
    }
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

std::set<NodeId> nodes_to_connect(const State& state) {
  std::set<NodeId> wanted;
  for (const auto& [id, node] : state.nodes) {
    // Only its agent can say that a fault is over.
    const bool may_recover = node.fault_drain && !state.jobs.empty();
    // And that a reboot is over.
    if (node.owner || node.notice || node.remedy || may_recover) wanted.insert(id);
  }
  for (const auto& [id, job] : state.jobs) {
    add_growth_of(state, job, wanted);
    wanted.merge(asked_besides(state, job));
    if (asks_hosts(job)) wanted.insert(job.asked->nodes.begin(), job.asked->nodes.end());
  }
  return wanted;
}

}  // namespace muster
