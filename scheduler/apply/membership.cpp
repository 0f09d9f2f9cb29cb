// An elastic attempt's nodes after its launch. Whatever a journal says, the members are nodes that
// are held, with all of their ranks, and no node is released before nothing can run there.
#include <algorithm>
#include <map>
#include <set>

#include "scheduler/apply/parts.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"

namespace muster {

namespace {

// The attempt, when it can get other members.
Attempt* changing(State& state, const JobId& id, AttemptId number) {
  const Job* job = find_job(state, id);
  Attempt* attempt = find_attempt(state, id, number);
  const bool changes = attempt && is_live(job->spec) && attempt->launched;
  return changes && !is_ending(*attempt) ? attempt : nullptr;
}

Attempt* growing(State& state, const JobId& id, AttemptId number) {
  Attempt* attempt = changing(state, id, number);
  return attempt && attempt->has_members() && phase_of<Running>(*attempt) ? attempt : nullptr;
}

// Nodes with ranks come first, and index = node rank.
AttemptNode& move_behind_ranks(Attempt& attempt, const AttemptNode& node) {
  const auto from = attempt.nodes.begin() + (&node - attempt.nodes.data());
  const auto to = attempt.nodes.begin() + static_cast<std::ptrdiff_t>(attempt.processes.size());
  std::rotate(to, from, from + 1);
  return *to;
}

void add_ranks(Attempt& attempt, int processes) {
  const auto node_index = static_cast<int>(attempt.processes.size());
  attempt.processes.push_back(processes);
  for (int local = 0; local < processes; ++local) {
    const RankId id{static_cast<std::int64_t>(attempt.ranks.size())};
    attempt.ranks.push_back({id, node_index, local, RankWaiting{}});
  }
}

// How many ranks of each node are listed; empty: it is no list of members.
std::map<int, std::size_t> listed_ranks(const Attempt& attempt, const std::vector<RankId>& ranks) {
  std::map<int, std::size_t> listed;
  std::set<RankId> seen;
  for (const RankId& id : ranks) {
    const bool is_known =
        id.value >= 0 && id.value < static_cast<std::int64_t>(attempt.ranks.size());
    if (!is_known || !seen.insert(id).second) return {};
    listed[attempt.ranks[static_cast<std::size_t>(id.value)].node_index] += 1;
  }
  for (const auto& [index, count] : listed) {
    const auto at = static_cast<std::size_t>(index);
    const bool is_whole = count == ranks_on(attempt, at).size();
    if (!is_whole || !is_active(attempt.nodes.at(at))) return {};
  }
  return listed;
}

void set_member(AttemptNode& node, bool member, std::int64_t epoch) {
  if (member && !node.membership.is_member) {
    node.membership.since = epoch;
    if (epoch == 1) node.membership.told = 1;  // by what starts its ranks
  }
  node.membership.is_member = member;
}

// Before the launch nobody knows a rank yet.
void release_node(State& state, Attempt& attempt, const AttemptNode& node) {
  const NodeLeaving leaves = node.departure->why;
  const bool failed = node.checked && !node.checked->failures.empty();
  const bool lasting =
      failed && std::ranges::any_of(node.checked->failures,
                                    [](const CheckFailure& one) { return one.lasting; });
  NodeReplaced passed{leaves.job,      leaves.attempt,
                      leaves.node,     {},
                      leaves.sentence, lasting ? Unfitness::lasting : Unfitness::unhealthy};
  if (leaves.reason == StopReason::node_lost) passed.unfitness = Unfitness::unreachable;
  if (leaves.reason == StopReason::drained) passed.unfitness = Unfitness::drained;
  attempt.rejected_nodes.push_back(std::move(passed));
  release(state, leaves.node, leaves.job);
  attempt.nodes.erase(attempt.nodes.begin() + (&node - attempt.nodes.data()));
  deal_ranks(attempt, find_job(state, leaves.job)->spec.distribution);
}

// The rule that fits what a rank said keeps the job away from its node, as after an attempt.
bool is_excluded_by_rule(const Rank& rank) {
  const auto* done = std::get_if<RankDone>(&rank.state);
  const auto* rule = done && done->exit.rules.rule ? &*done->exit.rules.rule : nullptr;
  return rule && rule->action == Reaction::exclude_node;
}

}  // namespace

void apply_one(State& state, Time at, const NodeAdded& record) {
  Attempt* attempt = growing(state, record.job, record.attempt);
  if (!attempt || find_node(*attempt, record.node)) return;
  const AttemptNode* spare = find_spare(*attempt, record.node);
  if (!spare && !is_free(state, record.node)) return;
  AttemptNode node = joining_node(record.node, at);
  if (spare) {
    node.checked = spare->checked;
    node.staging_seen = spare->staging_seen;
    node.preparing = spare->preparing;
    node.staged = spare->staged;
    forget_spare(*attempt, record.node);
  }
  attempt->nodes.push_back(std::move(node));
  node_at(state, record.node).owner = record.job;
}

void apply_one(State& state, Time at, const JoinBegun& record) {
  Attempt* attempt = growing(state, record.job, record.attempt);
  const AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  if (!node || !is_joiner(*node) || node->join->begun || record.processes < 1) return;
  AttemptNode& joins = move_behind_ranks(*attempt, *node);
  joins.join->begun = at;
  remember_agent(state, joins);
  add_ranks(*attempt, record.processes);
}

void apply_one(State& state, Time at, const NodeReady& record) {
  Attempt* attempt = growing(state, record.job, record.attempt);
  AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  if (node && is_active(*node) && is_getting_ready(*node)) node->join->ready_at = at;
}

void apply_one(State& state, Time at, const MembersChanged& record) {
  Attempt* attempt = changing(state, record.job, record.attempt);
  if (!attempt || record.members_epoch != attempt->members.epoch + 1) return;
  const auto listed = listed_ranks(*attempt, record.ranks);
  if (listed.empty()) return;
  attempt->members = {record.members_epoch, record.ranks};
  for (std::size_t i = 0; i < attempt->nodes.size(); ++i) {
    set_member(attempt->nodes[i], listed.contains(static_cast<int>(i)), record.members_epoch);
  }
  attempt->stall.reset();
  run_when_started(*attempt, at);
}

void apply_one(State& state, Time, const MembersTold& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  if (!node || record.members_epoch > attempt->members.epoch) return;
  // One that goes is stopped whether it could be told or not.
  if (record.error.empty() || node->departure) {
    node->membership.told = std::max(node->membership.told, record.members_epoch);
  } else if (record.members_epoch == attempt->members.epoch) {
    node->membership.error = record.error;
  }
}

void apply_one(State& state, Time at, const NodeLeaving& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  if (!node || !is_active(*node) || node->membership.is_member) return;
  if (!is_elastic(find_job(state, record.job)->spec)) return;
  const bool is_after_launch = attempt->has_members() && !is_ending(*attempt);
  const bool gathers = phase_of<Gathering>(*attempt) && active_nodes(*attempt) > 1;
  if (!is_after_launch && !gathers) return;
  node->departure = Departure{record, at};
  run_when_started(*attempt, at);
}

void apply_one(State& state, Time at, const NodeReleased& record) {
  Attempt* attempt = find_attempt(state, record.job, record.attempt);
  AttemptNode* node = attempt ? find_node(*attempt, record.node) : nullptr;
  if (!node || !node->departure) return;
  if (phase_of<Gathering>(*attempt)) note_measured(state, record.job, record.node, at);
  if (phase_of<Gathering>(*attempt)) return release_node(state, *attempt, *node);
  if (may_have_started(*attempt, *node) && !is_quiet(*node)) return;
  const auto here = ranks_on(*attempt, record.node);
  if (std::ranges::any_of(here, is_excluded_by_rule)) {
    find_job(state, record.job)->excluded.insert(record.node);
  }
  lose_ranks(*attempt, record.node, at);
  node->departure->is_released = true;
  release_after(state, *node, as_stop(node->departure->why));
}

}  // namespace muster
