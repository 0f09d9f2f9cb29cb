// The queue: by priority, then first in, first out; gangs whole or not at all; no backfill. A job
// between two attempts keeps its nodes; one that is preemptible gives way to a higher priority.
#include <algorithm>
#include <map>
#include <tuple>

#include "scheduler/model/exit_code.h"
#include "scheduler/placement/allocate.h"
#include "scheduler/placement/candidates.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/sentences.h"
#include "scheduler/state/turn.h"

namespace muster {

namespace {

// It had to make room for another job: only its priority counts now.
bool has_given_way(const Job& job) {
  const AttemptCause& cause = job.past.back().cause;
  return cause.reason == StopReason::preempted && !cause.first_node;
}

// Between two attempts: its nodes stay its own.
bool is_restarting(const Job& job) {
  return std::holds_alternative<Backoff>(job.phase) && !has_given_way(job);
}

bool goes_before(const Job* a, const Job* b) {
  const auto key = [](const Job& job) {
    const bool restarts = is_restarting(job);
    const bool yields = !restarts || job.spec.muster.preemptible;
    return std::tuple{yields, -job.spec.muster.priority, !restarts, job.order};
  };
  return key(*a) < key(*b);
}

std::vector<const Job*> queued_jobs(const State& state) {
  std::vector<const Job*> jobs;
  for (const auto& [id, job] : state.jobs) {
    if (!active_attempt(job) && !is_undecided(job)) jobs.push_back(&job);
  }
  std::ranges::sort(jobs, goes_before);
  return jobs;
}

struct Supply {
  std::vector<Candidate> nodes;
  std::size_t wanted = 1;  // at least
  std::size_t usable = 0;
  std::size_t busy = 0;
  std::size_t drained = 0;
  bool link_failed = false;
};

Supply survey(Turn& turn, const Job& job) {
  Supply supply;
  supply.nodes = candidates(turn, job);
  supply.wanted = node_range(job.spec).least;
  for (const Candidate& node : supply.nodes) {
    if (std::holds_alternative<Usable>(node.standing)) supply.usable += 1;
    if (std::holds_alternative<Busy>(node.standing)) supply.busy += 1;
    if (std::holds_alternative<Drained>(node.standing)) supply.drained += 1;
    const auto* unusable = std::get_if<Unusable>(&node.standing);
    if (unusable && unusable->link) supply.link_failed = true;
  }
  return supply;
}

std::string reasons(const Supply& supply) {
  std::vector<std::string> parts;
  for (const Candidate& node : supply.nodes) {
    if (!node.why_not.empty()) parts.push_back(node.why_not);
  }
  return list_text(parts);
}

JobEnded cannot_ever(const Job& job, const Supply& supply) {
  const std::size_t possible = supply.usable + supply.busy + supply.drained;
  const ExitCode code = supply.link_failed ? ExitCode::launch : ExitCode::no_nodes;
  std::string text = "needs " + count_text(supply.wanted, "node") + ", but " + job.target.name +
                     " has " + std::to_string(possible) + " that can be used";
  const std::string why = reasons(supply);
  if (!why.empty()) text += ": " + why;
  return {job.id, JobEndState::failed, static_cast<int>(code), text};
}

std::string waiting_text(const Job& job, const Supply& supply) {
  return "waits for " + std::to_string(supply.wanted - supply.usable) + " of " +
         count_text(supply.wanted, "node") + " of " + job.target.name + ": " + reasons(supply);
}

void keep(Turn& turn, const Job& job, const std::vector<Candidate>& nodes) {
  for (const Candidate& node : nodes) {
    if (std::holds_alternative<Usable>(node.standing)) turn.kept.emplace(node.id, job.id);
  }
}

std::string why_these(const State& state, const Job& job, const std::vector<NodeId>& nodes,
                      Time now) {
  if (job.past.empty()) {
    const std::string absent = absent_text(state, job, nodes, now);
    const std::string first = "first free nodes of " + job.target.name;
    return absent.empty() ? first : first + " that answer; " + absent;
  }
  const PastAttempt& before = *previous_of(job);
  if (before.nodes == nodes) return "the same nodes as before";
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < nodes.size() && i < before.nodes.size(); ++i) {
    if (nodes[i] == before.nodes[i]) continue;
    parts.push_back((has_node(before.spares, nodes[i]) ? "spare " : "") + nodes[i].value +
                    " instead of " + before.nodes[i].value);
  }
  const std::size_t same = std::min(nodes.size(), before.nodes.size());
  for (std::size_t i = same; i < nodes.size(); ++i) parts.push_back(nodes[i].value + " as well");
  for (std::size_t i = same; i < before.nodes.size(); ++i) {
    if (!has_node(nodes, before.nodes[i])) parts.push_back("without " + before.nodes[i].value);
  }
  return parts.empty() ? "fewer nodes than before" : list_text(parts);
}

std::string too_few_text(std::size_t found, std::size_t wanted) {
  if (found >= wanted) return "";
  const std::string number = found == 0 ? "none" : "only " + std::to_string(found);
  return "; " + number + " of " + count_text(wanted, "spare") + " is free";
}

// Beyond the least that it needs an elastic job starts only on nodes that look well: it takes
// others while it runs.
std::size_t placed_count(const Job& job, const Supply& supply) {
  const auto well =
      static_cast<std::size_t>(std::ranges::count_if(supply.nodes, [](const Candidate& node) {
        const auto* usable = std::get_if<Usable>(&node.standing);
        return usable && usable->penalty <= PlacementPenalty::suspect;
      }));
  return std::clamp(well, supply.wanted, node_range(job.spec).most);
}

// False: answers of hosts are awaited first.
bool place(Turn& turn, const Job& job, const Supply& supply) {
  const PastAttempt* previous = previous_of(job);
  auto nodes = choose_nodes(supply.nodes, placed_count(job, supply), previous);
  const std::size_t wanted = spares_wanted(job);
  auto spares = choose_spares(supply.nodes, wanted, nodes, previous);
  // Whom it would like to have, were they all well.
  const auto picks = choose_nodes(supply.nodes, node_range(job.spec).most + wanted, previous);
  if (awaits_hosts(turn, job, supply.nodes, picks)) {
    for (const NodeId& id : picks) turn.kept.emplace(id, job.id);
    return false;
  }
  const std::string why =
      why_these(turn.state, job, nodes, turn.moment.now()) + too_few_text(spares.size(), wanted);
  turn.decide(
      AttemptPlaced{job.id, AttemptId{job.next_attempt}, std::move(nodes), why, std::move(spares)});
  return true;
}

// ---- who makes room: preemptible jobs of lower priority, and only when that lets the job start -

struct Victim {
  const Job* job;
  const Attempt* attempt;
  std::size_t nodes = 0;  // that the job could use
};

// Its nodes will be nobody's.
bool gives_back(const Attempt& attempt) {
  const StopBegun* why = why_ending(attempt);
  return why && (why->reason == StopReason::finished || why->reason == StopReason::canceled ||
                 (why->reason == StopReason::preempted && !why->blamed));
}

// A job whose last gang was not fit has had its chance: it waits for nodes that are free, or two
// jobs would take turns for ever.
bool may_preempt(const Job& job) {
  return !job.waiting_since && job.waited_before == Milliseconds{0};
}

bool yields_to(const Job& owner, const Job& job) {
  return owner.spec.muster.preemptible && owner.spec.muster.priority < job.spec.muster.priority;
}

// Spares most waiting jobs the look at each of their nodes.
bool somebody_yields(const State& state, const Job& job) {
  return std::ranges::any_of(state.jobs,
                             [&](const auto& item) { return yields_to(item.second, job); });
}

struct Room {
  std::vector<Victim> victims;
  std::size_t coming = 0;  // nodes that are being given back
};

Room room_in(const Turn& turn, const Job& job, const std::vector<Candidate>& nodes) {
  std::map<JobId, Victim> victims;
  Room room;
  for (const Candidate& candidate : nodes) {
    const Node* node = find_node(turn.state, candidate.id);
    const bool is_held = std::holds_alternative<Busy>(candidate.standing) && node && node->owner;
    const Job* owner = is_held && !node->unclean ? find_job(turn.state, *node->owner) : nullptr;
    const Attempt* attempt = owner ? active_attempt(*owner) : nullptr;
    if (!attempt) continue;
    if (is_ending(*attempt)) {
      room.coming += gives_back(*attempt) ? 1 : 0;
    } else if (yields_to(*owner, job)) {
      Victim& victim = victims[owner->id];
      victim = {owner, attempt, victim.nodes + 1};
    }
  }
  for (const auto& [id, victim] : victims) room.victims.push_back(victim);
  return room;
}

// Lowest priority first; of one priority, one that is enough rather than several; then the
// youngest, which loses least.
const Victim* next_victim(const std::vector<Victim>& victims, std::size_t missing) {
  const auto key = [&](const Victim& victim) {
    const bool is_enough = victim.nodes >= missing;
    const auto nodes = static_cast<std::int64_t>(victim.nodes);
    const std::int64_t age = -to_ms(victim.attempt->placed_at);
    return std::tuple{victim.job->spec.muster.priority, !is_enough, is_enough ? 0 : -nodes, age,
                      -victim.job->order};
  };
  const auto least = std::ranges::min_element(
      victims, [&](const Victim& a, const Victim& b) { return key(a) < key(b); });
  return least == victims.end() ? nullptr : &*least;
}

std::vector<Victim> choose(std::vector<Victim> victims, std::size_t missing) {
  std::vector<Victim> chosen;
  std::size_t freed = 0;
  while (freed < missing) {
    const Victim* next = next_victim(victims, missing - freed);
    if (!next) return {};
    freed += next->nodes;
    chosen.push_back(*next);
    std::erase_if(victims, [&](const Victim& one) { return one.job == chosen.back().job; });
  }
  // A later one may have made an earlier one needless; the dearest is spared first.
  for (std::size_t i = chosen.size(); i-- > 0;) {
    if (freed - chosen[i].nodes < missing) continue;
    freed -= chosen[i].nodes;
    chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return chosen;
}

// `missing`: how many of the busy nodes among `nodes` the job still needs. Stops what has to be
// stopped; nothing when enough of them come free already, or never would.
void make_room(Turn& turn, const Job& job, const std::vector<Candidate>& nodes,
               std::size_t missing) {
  if (!may_preempt(job) || !somebody_yields(turn.state, job)) return;
  Room room = room_in(turn, job, nodes);
  if (room.coming >= missing) return;
  for (const Victim& victim : choose(std::move(room.victims), missing - room.coming)) {
    turn.decide(stop_for(*victim.job, *victim.attempt, StopReason::preempted,
                         "gives its nodes to job " + job.id.value + ", whose priority is " +
                             std::to_string(job.spec.muster.priority) + " and not " +
                             std::to_string(victim.job->spec.muster.priority)));
  }
}

// ---- waiting and placing ----------------------------------------------------------------------

void say_waits(Turn& turn, const Job& job, const std::string& reason) {
  const auto* queued = std::get_if<Queued>(&job.phase);
  if (!queued || queued->reason != reason) turn.decide(JobPending{job.id, reason});
}

void wait(Turn& turn, const Job& job, const Supply& supply) {
  const bool comes_free = supply.usable + supply.busy >= supply.wanted;
  say_waits(turn, job, waiting_text(job, supply));
  if (!comes_free) return;
  make_room(turn, job, supply.nodes, supply.wanted - supply.usable);
  keep(turn, job, supply.nodes);
  const bool takes_all = std::ranges::none_of(supply.nodes, [](const Candidate& node) {
    return std::holds_alternative<Unusable>(node.standing);
  });
  if (takes_all) turn.closed.emplace(job.target.name, job.id);
}

// Spares the jobs behind a blocked gang a survey each: a long queue costs no more than its head.
const JobId* kept_for(const Turn& turn, const Job& job) {
  const std::size_t wanted = node_range(job.spec).least;
  const auto closed = turn.closed.find(job.target.name);
  const bool too_large = wanted > job.target.nodes.size();
  return closed == turn.closed.end() || too_large ? nullptr : &closed->second;
}

bool is_due(Turn& turn, const Job& job) {
  const auto* queued = std::get_if<Queued>(&job.phase);
  if (queued) return !queued->not_before || turn.moment.reached(*queued->not_before);
  const auto* backoff = std::get_if<Backoff>(&job.phase);
  return !backoff || turn.moment.reached(backoff->retry.at);
}

// What takes the place of one that it lost.
void keep_replacements(Turn& turn, const Job& job, const Supply& supply) {
  for (const NodeId& id : choose_nodes(supply.nodes, supply.wanted, previous_of(job))) {
    turn.kept.emplace(id, job.id);
  }
}

// It would go on with fewer nodes than it had, and asks for spares: one may come free.
bool awaits_spare(Turn& turn, const Job& job, const Supply& supply) {
  if (!restarts_to_scale(job.spec) || !is_restarting(job) || spares_wanted(job) == 0) {
    return false;
  }
  const PastAttempt& last = job.past.back();
  return placed_count(job, supply) < last.nodes.size() &&
         !turn.moment.reached(last.ended_at + job.spec.muster.elastic.wait);
}

// True when the queue has changed: what is behind this job is judged anew in the next turn.
bool serve(Turn& turn, const Job& job) {
  const bool due = is_due(turn, job);
  if (const JobId* ahead = due ? kept_for(turn, job) : nullptr) {
    say_waits(turn, job,
              "pending behind job " + ahead->value + ", for which " + job.target.name + " is kept");
    return false;
  }
  const Supply supply = survey(turn, job);
  if (supply.usable + supply.busy + supply.drained < supply.wanted) {
    turn.decide(cannot_ever(job, supply));
    return true;
  }
  if (!due || awaits_spare(turn, job, supply)) {
    if (is_restarting(job)) keep_replacements(turn, job, supply);
    return false;
  }
  if (supply.usable < supply.wanted) {
    wait(turn, job, supply);
    return false;
  }
  return place(turn, job, supply);
}

}  // namespace

void keep_for_restarts(Turn& turn) {
  for (const auto& [id, job] : turn.state.jobs) {
    if (!is_restarting(job)) continue;
    const PastAttempt& previous = *previous_of(job);
    for (const auto* nodes : {&previous.nodes, &previous.spares}) {
      for (const NodeId& node : *nodes) {
        if (!has_node(job.avoid, node)) turn.kept.emplace(node, id);
      }
    }
  }
}

void serve_queue(Turn& turn) {
  keep_for_restarts(turn);
  for (const Job* job : queued_jobs(turn.state)) {
    if (serve(turn, *job)) return;
  }
}

}  // namespace muster
