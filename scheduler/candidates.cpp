#include "scheduler/candidates.h"

#include <algorithm>

#include "scheduler/lookup.h"
#include "scheduler/sentences.h"

namespace muster {

namespace {

bool has(const std::vector<std::string>& names, const NodeId& id) {
  return std::find(names.begin(), names.end(), id.value) != names.end();
}

bool has(const std::vector<NodeId>& nodes, const NodeId& id) {
  return std::find(nodes.begin(), nodes.end(), id) != nodes.end();
}

bool is_placed_out(const Job& job, const NodeId& id) {
  const MusterSettings& settings = job.spec.muster;
  const bool left_out = !settings.include_nodes.empty() && !has(settings.include_nodes, id);
  return left_out || has(settings.exclude_nodes, id);
}

std::string owner_text(const Node& node) {
  const std::string& owner = node.owner->value;
  if (node.unclean) return node.id.value + " has processes of job " + owner + " that do not die";
  return node.id.value + " is running job " + owner;
}

Time entered_queue(const Job& job) {
  return job.past.empty() ? job.submitted_at : job.past.back().ended_at;
}

const LinkFailure* permanent_failure(const Unlinked* link, const Job& job) {
  const bool counts =
      link && is_permanent(link->failure.kind) && link->failed_at >= entered_queue(job);
  return counts ? &link->failure : nullptr;
}

Candidate judge(const State& state, const Job& job, const std::set<NodeId>& taken,
                const NodeId& id) {
  if (is_placed_out(job, id)) return {id, Unusable{}, ""};
  if (job.excluded.count(id)) {
    return {id, Unusable{}, id.value + " was excluded from this job after a failure"};
  }
  const Node* node = find_node(state, id);
  const Unlinked* lost = node ? std::get_if<Unlinked>(&node->link) : nullptr;
  if (const LinkFailure* failure = permanent_failure(lost, job)) {
    return {id, Unusable{true}, link_text(id, *failure)};
  }
  if (node && node->drained) {
    return {id, Drained{}, id.value + " is drained: " + node->drain_reason};
  }
  if (node && node->owner) return {id, Busy{}, owner_text(*node)};
  if (taken.count(id)) return {id, Busy{}, id.value + " is kept for a job ahead of it"};
  if (has(job.avoid, id)) return {id, Usable{2}, ""};
  return {id, Usable{lost ? 1 : 0}, ""};
}

struct Pick {
  int reluctance;
  bool is_new;           // was not in the previous attempt
  std::size_t position;  // in the target
  NodeId id;
  auto key() const { return std::tuple{reluctance, is_new, position}; }
};

std::vector<Pick> best_picks(const std::vector<Candidate>& candidates, std::size_t count,
                             const std::vector<NodeId>& previous) {
  std::vector<Pick> picks;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto* usable = std::get_if<Usable>(&candidates[i].standing);
    const NodeId& id = candidates[i].id;
    if (usable) picks.push_back({usable->reluctance, !has(previous, id), i, id});
  }
  std::sort(picks.begin(), picks.end(),
            [](const Pick& a, const Pick& b) { return a.key() < b.key(); });
  picks.resize(std::min(picks.size(), count));
  std::sort(picks.begin(), picks.end(),
            [](const Pick& a, const Pick& b) { return a.position < b.position; });
  return picks;
}

}  // namespace

const LinkFailure* permanent_failure(const State& state, const Job& job, const NodeId& node) {
  return permanent_failure(unlinked(state, node), job);
}

std::vector<Candidate> candidates(const State& state, const Job& job,
                                  const std::set<NodeId>& taken) {
  std::vector<Candidate> all;
  all.reserve(job.target.nodes.size());
  for (const NodeAddress& node : job.target.nodes) {
    all.push_back(judge(state, job, taken, node.id));
  }
  return all;
}

std::vector<NodeId> choose_nodes(const std::vector<Candidate>& candidates, std::size_t count,
                                 const std::vector<NodeId>& previous) {
  std::vector<Pick> picks = best_picks(candidates, count, previous);
  std::vector<NodeId> chosen(picks.size());
  std::vector<bool> filled(picks.size(), false);
  std::vector<NodeId> movable;
  for (const Pick& pick : picks) {
    const auto place = std::find(previous.begin(), previous.end(), pick.id);
    const auto index = static_cast<std::size_t>(place - previous.begin());
    if (place != previous.end() && index < chosen.size()) {
      chosen[index] = pick.id;
      filled[index] = true;
    } else {
      movable.push_back(pick.id);
    }
  }
  auto next = movable.begin();
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (!filled[i]) chosen[i] = *next++;
  }
  return chosen;
}

}  // namespace muster
