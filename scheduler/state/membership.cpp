#include "scheduler/state/membership.h"

#include <algorithm>

#include "scheduler/state/lookup.h"

namespace muster {

bool is_elastic(const JobSpec& spec) {
  const DistributionType type = spec.distribution.type;
  const bool restarts = spec.muster.elastic.mode == ElasticMode::restart;
  const bool can_be =
      type == DistributionType::pytorch || (restarts && type == DistributionType::mpi);
  return can_be && spec.muster.nodes_min < spec.muster.nodes_max;
}

bool is_live(const JobSpec& spec) {
  return is_elastic(spec) && spec.muster.elastic.mode == ElasticMode::live;
}

bool restarts_to_scale(const JobSpec& spec) {
  return is_elastic(spec) && !is_live(spec);
}

NodeRange node_range(const JobSpec& spec) {
  const auto at_least_one = [](int count) { return static_cast<std::size_t>(std::max(1, count)); };
  const std::size_t fixed = at_least_one(spec.instance_count);
  if (!is_elastic(spec)) return {fixed, fixed};
  return {at_least_one(spec.muster.nodes_min), at_least_one(spec.muster.nodes_max)};
}

bool takes_part(const Attempt& attempt, const AttemptNode& node) {
  return attempt.has_members() ? node.membership.is_member : is_active(node);
}

bool takes_part(const Attempt& attempt, const Rank& rank) {
  return takes_part(attempt, node_of(attempt, rank));
}

bool is_joiner(const AttemptNode& node) {
  return node.join && is_active(node) && node.membership.since == 0;
}

std::size_t active_nodes(const Attempt& attempt) {
  return static_cast<std::size_t>(std::ranges::count_if(attempt.nodes, is_active));
}

std::size_t member_nodes(const Attempt& attempt) {
  return static_cast<std::size_t>(std::ranges::count_if(
      attempt.nodes, [](const AttemptNode& node) { return node.membership.is_member; }));
}

bool has_unfinished_ranks(const Attempt& attempt, std::size_t node_index) {
  const auto ranks = ranks_on(attempt, node_index);
  return std::ranges::any_of(ranks, is_unfinished);
}

bool is_finishing(const Attempt& attempt) {
  return std::ranges::any_of(attempt.ranks, [&](const Rank& rank) {
    const auto* done = std::get_if<RankDone>(&rank.state);
    return done && done->exit.status.ok() && takes_part(attempt, rank);
  });
}

StopBegun as_stop(const NodeLeaving& leaves) {
  return {leaves.job, leaves.attempt, leaves.reason, leaves.sentence, leaves.grace, leaves.node};
}

std::vector<RankId> next_members(const Attempt& attempt, const std::vector<NodeId>& leaving,
                                 const std::vector<NodeId>& coming) {
  std::vector<RankId> ranks;
  for (const RankId& id : attempt.members.ranks) {
    const Rank& rank = attempt.ranks.at(static_cast<std::size_t>(id.value));
    if (!has_node(leaving, node_of(attempt, rank).id)) ranks.push_back(id);
  }
  for (const NodeId& id : coming) {
    for (const Rank& rank : ranks_on(attempt, id)) ranks.push_back(rank.id);
  }
  return ranks;
}

}  // namespace muster
