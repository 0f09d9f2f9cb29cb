#include "tests/sim/model/invariants.h"

#include <algorithm>
#include <map>
#include <set>

#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"

namespace muster {

namespace {

void check_ownership(const State& state, const Job& job, const Attempt& attempt,
                     std::map<NodeId, JobId>& holders, std::vector<std::string>& found) {
  std::vector<AttemptNode> held = attempt.nodes;
  held.insert(held.end(), attempt.spares.begin(), attempt.spares.end());
  for (const AttemptNode& node : held) {
    if (is_released(node)) continue;
    const auto [holder, is_first] = holders.emplace(node.id, job.id);
    if (!is_first) {
      found.push_back("I1: " + node.id.value + " is in attempts of " + holder->second.value +
                      " and " + job.id.value);
    }
    const Node* known = find_node(state, node.id);
    if (!known || known->owner != job.id) {
      found.push_back("I1: " + node.id.value + " is used but not owned by " + job.id.value);
    }
  }
}

void check_owner(const State& state, const Node& node, std::vector<std::string>& found) {
  if (!node.owner || node.unclean) return;
  const Job* job = find_job(state, *node.owner);
  const Attempt* attempt = job ? active_attempt(*job) : nullptr;
  const auto is_it = [&](const AttemptNode& n) { return n.id == node.id; };
  const bool holds =
      attempt && (find_node(*attempt, node.id) ||
                  std::any_of(attempt->spares.begin(), attempt->spares.end(), is_it));
  if (!holds) {
    found.push_back("I1: " + node.id.value + " is owned by " + node.owner->value +
                    ", which does not use it");
  }
}

void check_member(const Job& job, const Attempt& attempt, const AttemptNode& node,
                  std::vector<std::string>& found) {
  const std::string who = "I12: " + node.id.value + " of " + job.id.value;
  if (node.membership.told > attempt.members.epoch) {
    found.push_back(who + " was told of members that there never were");
  }
  const bool is_member = node.membership.is_member;
  if (is_member && !is_active(node)) found.push_back(who + " goes, and is a member");
  if (is_member && is_preparing(node)) found.push_back(who + " is a member without ranks");
  const bool is_elastic_node = node.join || is_member || node.departure;
  if (is_elastic_node && !is_elastic(job.spec)) {
    found.push_back(who + " comes or goes, but the job is not elastic");
  }
}

// The list holds every rank of each node that is a member, once, and no other.
void check_members(const Job& job, const Attempt& attempt, std::vector<std::string>& found) {
  for (const AttemptNode& node : attempt.nodes) check_member(job, attempt, node, found);
  std::size_t ranks = 0;
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    if (attempt.nodes[i].membership.is_member) ranks += ranks_on(attempt, i).size();
  }
  std::set<RankId> listed;
  for (const RankId& id : attempt.members.ranks) {
    const bool is_rank = id.value >= 0 && static_cast<std::size_t>(id.value) < attempt.ranks.size();
    if (!is_rank || !takes_part(attempt, attempt.ranks[static_cast<std::size_t>(id.value)]) ||
        !listed.insert(id).second) {
      found.push_back("I12: rank " + std::to_string(id.value) + " of " + job.id.value +
                      " is listed and is no member, or is twice");
    }
  }
  if (listed.size() != ranks) found.push_back("I12: members of " + job.id.value + " are left out");
}

// Ranks lie node by node and are numbered on: `ranks_on` and every agent rely on it.
void check_ranks(const Job& job, const Attempt& attempt, std::vector<std::string>& found) {
  int node_index = 0;
  for (std::size_t i = 0; i < attempt.ranks.size(); ++i) {
    const Rank& rank = attempt.ranks[i];
    const bool is_in_order = rank.id.value == static_cast<std::int64_t>(i) &&
                             rank.node_index >= node_index &&
                             static_cast<std::size_t>(rank.node_index) < attempt.nodes.size();
    if (!is_in_order) found.push_back("I12: ranks of " + job.id.value + " are out of order");
    node_index = rank.node_index;
  }
}

}  // namespace

std::vector<std::string> violations(const State& state) {
  std::vector<std::string> found;
  std::map<NodeId, JobId> holders;
  for (const auto& [id, job] : state.jobs) {
    if (const Attempt* attempt = active_attempt(job)) {
      check_ownership(state, job, *attempt, holders, found);
      check_members(job, *attempt, found);
      check_ranks(job, *attempt, found);
    }
  }
  for (const auto& [id, node] : state.nodes) check_owner(state, node, found);
  return found;
}

}  // namespace muster
