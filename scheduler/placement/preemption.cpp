#include "scheduler/placement/preemption.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "scheduler/state/lookup.h"

namespace muster {

namespace {

struct Victim {
  const Job* job;
  const Attempt* attempt;
  std::size_t nodes = 0;  // that the job could use
};

// Its nodes will be nobody's.
bool gives_back(const Attempt& attempt) {
  const auto* stopping = phase_of<Stopping>(attempt);
  const auto* collecting = phase_of<Collecting>(attempt);
  const StopBegun* why = stopping ? &stopping->why : nullptr;
  if (collecting && collecting->why) why = &*collecting->why;
  if (!why) return false;
  return why->reason == StopReason::finished || why->reason == StopReason::canceled ||
         (why->reason == StopReason::preempted && !why->blamed);
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

Room survey(const Turn& turn, const Job& job, const std::vector<Candidate>& nodes) {
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

}  // namespace

void make_room(Turn& turn, const Job& job, const std::vector<Candidate>& nodes,
               std::size_t missing) {
  if (!may_preempt(job) || !somebody_yields(turn.state, job)) return;
  Room room = survey(turn, job, nodes);
  if (room.coming >= missing) return;
  for (const Victim& victim : choose(std::move(room.victims), missing - room.coming)) {
    turn.decide(stop_for(*victim.job, *victim.attempt, StopReason::preempted,
                         "gives its nodes to job " + job.id.value + ", whose priority is " +
                             std::to_string(job.spec.muster.priority) + " and not " +
                             std::to_string(victim.job->spec.muster.priority)));
  }
}

}  // namespace muster
