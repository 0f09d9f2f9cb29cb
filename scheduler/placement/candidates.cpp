#include "scheduler/placement/candidates.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "scheduler/node/remediation_run.h"
#include "scheduler/node/status.h"
#include "scheduler/placement/allocate.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

bool has(const std::vector<std::string>& names, const NodeId& id) {
  return std::ranges::find(names, id.value) != names.end();
}

std::string owner_text(const State& state, const Node& node) {
  const std::string& owner = node.owner->value;
  if (node.unclean) return node.id.value + " has processes of job " + owner + " that do not die";
  if (is_spare(state, node)) return node.id.value + " is a hot spare of job " + owner;
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

// What an agent counted before the job entered the queue may have changed, unless it still answers.
std::optional<std::string> known_shortage(const Node& node, const Job& job) {
  const auto* lost = std::get_if<Unlinked>(&node.link);
  const LinkUp* agent = last_agent(node);
  if (!agent || (lost && lost->since <= entered_queue(job))) return std::nullopt;
  return gpu_shortage(job.spec, *agent);
}

// What a job restarts on is kept for it, but a preemptible one gives way to a higher priority.
bool is_kept_from(const Turn& turn, const Job& job, const NodeId& id) {
  const auto kept = turn.kept.find(id);
  if (kept == turn.kept.end() || kept->second == job.id) return false;
  const Job* other = find_job(turn.state, kept->second);
  const bool gives_way = other && std::holds_alternative<Backoff>(other->phase) &&
                         other->spec.muster.preemptible &&
                         other->spec.muster.priority < job.spec.muster.priority;
  return !gives_way;
}

// What took it from an elastic job is over once it can be used again, what it is blamed for when
// somebody has looked at it: then the job may grow back to it.
bool may_grow_back(const Job& job, const Node& node) {
  if (!is_elastic(job.spec) || !active_attempt(job) || job.past.empty()) return false;
  const PastAttempt& last = job.past.back();
  const StopReason why = last.cause.reason;
  return why == StopReason::drained || why == StopReason::node_lost ||
         why == StopReason::preempted || why == StopReason::faulty ||
         (node.cleared_at && *node.cleared_at >= last.ended_at);
}

PlacementPenalty penalty_of(const State& state, const Job& job, const Node* node, Time now) {
  if (!node) return PlacementPenalty::none;
  if (has_node(job.avoid, node->id) && !may_grow_back(job, *node)) {
    return PlacementPenalty::avoided;
  }
  const bool suspect = is_suspect(*node, now);
  if (!std::holds_alternative<Unlinked>(node->link)) {
    if (suspect) return PlacementPenalty::suspect;
    return is_silent(state, job, node->id, now) ? PlacementPenalty::silent : PlacementPenalty::none;
  }
  return suspect ? PlacementPenalty::suspect_and_down : PlacementPenalty::link_down;
}

Candidate judge(Turn& turn, const Job& job, const NodeId& id) {
  if (is_placed_out(job, id)) return {id, Unusable{}, ""};
  if (job.excluded.count(id)) {
    return {id, Unusable{}, id.value + " was excluded from this job after a failure"};
  }
  const Node* node = find_node(turn.state, id);
  const Unlinked* lost = node ? std::get_if<Unlinked>(&node->link) : nullptr;
  if (const LinkFailure* failure = permanent_failure(lost, job)) {
    return {id, Unusable{true}, link_text(id, *failure)};
  }
  if (const auto shortage = node ? known_shortage(*node, job) : std::nullopt) {
    return {id, Unusable{}, id.value + " " + *shortage};
  }
  if (auto refusal = refusal_of(node, turn.moment)) {
    const auto hindrance = node ? remedy_hindrance(turn.state, *node) : std::nullopt;
    return {id, Drained{}, hindrance ? *refusal + "; " + *hindrance : *refusal};
  }
  if (node && node->owner) return {id, Busy{}, owner_text(turn.state, *node)};
  if (turn.given.count(id) || is_kept_from(turn, job, id)) {
    return {id, Busy{}, id.value + " is kept for a job ahead of it"};
  }
  return {id, Usable{penalty_of(turn.state, job, node, turn.moment.now())}, ""};
}

struct Pick {
  PlacementPenalty penalty;
  int novelty;           // 0: was in the previous gang, 1: was a spare of it, 2: neither
  std::size_t position;  // in the target
  NodeId id;
  auto key() const { return std::tuple{penalty, novelty, position}; }
};

int novelty_of(const PastAttempt* previous, const NodeId& id) {
  if (previous && has_node(previous->nodes, id)) return 0;
  return previous && has_node(previous->spares, id) ? 1 : 2;
}

// The best first.
std::vector<Pick> ranked_picks(const std::vector<Candidate>& candidates,
                               const PastAttempt* previous) {
  std::vector<Pick> picks;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto* usable = std::get_if<Usable>(&candidates[i].standing);
    const NodeId& id = candidates[i].id;
    if (usable) picks.push_back({usable->penalty, novelty_of(previous, id), i, id});
  }
  std::ranges::sort(picks, [](const Pick& a, const Pick& b) { return a.key() < b.key(); });
  return picks;
}

// In the order in which they fill gaps: a former spare has the job's files already.
std::vector<Pick> best_picks(const std::vector<Candidate>& candidates, std::size_t count,
                             const PastAttempt* previous) {
  std::vector<Pick> picks = ranked_picks(candidates, previous);
  picks.resize(std::min(picks.size(), count));
  std::ranges::sort(picks, [](const Pick& a, const Pick& b) {
    return std::pair{a.novelty, a.position} < std::pair{b.novelty, b.position};
  });
  return picks;
}

}  // namespace

bool is_placed_out(const Job& job, const NodeId& id) {
  const MusterSettings& settings = job.spec.muster;
  const bool left_out = !settings.include_nodes.empty() && !has(settings.include_nodes, id);
  return left_out || has(settings.exclude_nodes, id);
}

const LinkFailure* permanent_failure(const State& state, const Job& job, const NodeId& node) {
  return permanent_failure(unlinked(state, node), job);
}

const PastAttempt* previous_of(const Job& job) {
  return job.past.empty() ? nullptr : &job.past.back();
}

std::size_t spares_wanted(const Job& job) {
  return static_cast<std::size_t>(std::max(0, job.spec.muster.nodes_spares));
}

std::vector<Candidate> candidates(Turn& turn, const Job& job) {
  std::vector<Candidate> all;
  all.reserve(job.target.nodes.size());
  for (const NodeAddress& node : job.target.nodes) all.push_back(judge(turn, job, node.id));
  return all;
}

std::vector<NodeId> choose_spares(const std::vector<Candidate>& candidates, std::size_t count,
                                  const std::vector<NodeId>& gang, const PastAttempt* previous) {
  std::vector<NodeId> spares;
  if (count == 0) return spares;
  for (const Pick& pick : ranked_picks(candidates, previous)) {
    if (spares.size() == count) break;
    if (pick.penalty != PlacementPenalty::avoided && !has_node(gang, pick.id))
      spares.push_back(pick.id);
  }
  return spares;
}

std::vector<NodeId> choose_nodes(const std::vector<Candidate>& candidates, std::size_t count,
                                 const PastAttempt* previous) {
  std::vector<Pick> picks = best_picks(candidates, count, previous);
  std::vector<NodeId> chosen(picks.size());
  std::vector<bool> filled(picks.size(), false);
  std::vector<NodeId> movable;
  const std::vector<NodeId> before = previous ? previous->nodes : std::vector<NodeId>();
  for (const Pick& pick : picks) {
    const auto place = std::ranges::find(before, pick.id);
    const auto index = static_cast<std::size_t>(place - before.begin());
    if (place != before.end() && index < chosen.size()) {
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
