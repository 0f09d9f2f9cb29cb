#include "scheduler/decide.h"

#include "scheduler/lookup.h"
#include "scheduler/restart_policy.h"
#include "scheduler/turn.h"

namespace muster {

namespace {

void act(Turn& turn, const Job& job, const Attempt& attempt) {
  if (phase_of<Stopping>(attempt)) return stop(turn, job, attempt);
  if (phase_of<Collecting>(attempt)) return collect(turn, job, attempt);
  if (auto why = interruption(turn, job, attempt)) return turn.decide(std::move(*why));
  if (phase_of<Gathering>(attempt)) return gather(turn, job, attempt);
  launch(turn, job, attempt);
}

void cancel_waiting(Turn& turn, const Job& job) {
  const int code = static_cast<int>(ExitCode::canceled);
  turn.decide(JobEnded{job.id, JobEndState::canceled, code, "cancelled by the user"});
}

void act(Turn& turn, const Job& job) {
  if (const Attempt* attempt = active_attempt(job)) return act(turn, job, *attempt);
  if (is_undecided(job)) return turn.decisions.push_back(after_attempt(job));
  if (job.cancel) cancel_waiting(turn, job);
}

}  // namespace

// Jobs that hold nodes come first; the queue is served when they have nothing left to say, so that
// it sees what they gave back.
void take_turn(Turn& turn) {
  for (const auto& [id, job] : turn.state.jobs) act(turn, job);
  if (turn.decisions.empty()) serve_queue(turn);
}

std::vector<Decision> decide(const State& state, Time now) {
  Turn turn{state, Moment{now}, {}, {}, {}};
  take_turn(turn);
  return std::move(turn.decisions);
}

std::optional<Time> next_wake(const State& state, Time now) {
  Turn turn{state, Moment{now}, {}, {}, {}};
  take_turn(turn);
  return turn.moment.next();
}

}  // namespace muster
