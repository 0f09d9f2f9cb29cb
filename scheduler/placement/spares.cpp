#include "scheduler/placement/spares.h"

#include <algorithm>

#include "scheduler/placement/fitness.h"
#include "scheduler/state/lookup.h"

namespace muster {

namespace {

std::optional<std::string> why_unfit(Turn& turn, const Job& job, const AttemptNode& spare) {
  if (auto found = unfit(turn, job, spare)) return std::move(found->reason);
  if (!spare.staged || spare.staged->error.empty()) return std::nullopt;
  return spare.id.value + " could not be prepared: " + spare.staged->error;
}

// A job that waits for nodes of the same target needs them more.
bool somebody_waits(const State& state, const Job& job) {
  return std::any_of(state.jobs.begin(), state.jobs.end(), [&](const auto& item) {
    return !active_attempt(item.second) && item.second.target.name == job.target.name;
  });
}

}  // namespace

bool has_ready_spare(Turn& turn, const Job& job, const Attempt& attempt) {
  return !ready_spares(turn, job, attempt).empty();
}

std::vector<NodeId> ready_spares(Turn& turn, const Job& job, const Attempt& attempt) {
  std::vector<NodeId> ready;
  for (const AttemptNode& spare : attempt.spares) {
    if (!has_passed_gate(turn.state, spare) || why_unfit(turn, job, spare)) continue;
    ready.push_back(spare.id);
  }
  return ready;
}

std::vector<Candidate> new_candidates(Turn& turn, const Job& job, const Attempt& attempt) {
  std::vector<Candidate> all = candidates(turn, job);
  std::erase_if(all, [&](const Candidate& candidate) {
    const auto& dropped = attempt.spares_dropped;
    return was_passed_over(attempt, candidate.id) ||
           std::find(dropped.begin(), dropped.end(), candidate.id) != dropped.end();
  });
  return all;
}

// Others are looked for while the gang gathers and when one is given back: not at every turn.
void mind_spares(Turn& turn, const Job& job, const Attempt& attempt) {
  std::size_t kept = 0;
  for (const AttemptNode& spare : attempt.spares) {
    if (auto why = why_unfit(turn, job, spare)) {
      turn.decide(SpareDropped{job.id, attempt.id, spare.id, std::move(*why)});
    } else {
      ++kept;
    }
  }
  const bool looks = kept < attempt.spares.size() || phase_of<Gathering>(attempt);
  if (!looks || kept >= spares_wanted(job) || somebody_waits(turn.state, job)) return;
  const auto free = new_candidates(turn, job, attempt);
  for (const NodeId& id : choose_spares(free, spares_wanted(job) - kept, {}, {})) {
    turn.given.insert(id);
    turn.decide(SpareAdded{job.id, attempt.id, id});
  }
}

}  // namespace muster
