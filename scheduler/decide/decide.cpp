#include "scheduler/decide/decide.h"

#include "scheduler/model/exit_code.h"
#include "scheduler/node/fault_drain.h"
#include "scheduler/node/remediation_run.h"
#include "scheduler/node/status.h"
#include "scheduler/restart/policy.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/sentences.h"
#include "scheduler/state/turn.h"

namespace muster {

namespace {

void act(Turn& turn, const Job& job, const Attempt& attempt) {
  if (phase_of<Stopping>(attempt)) return stop(turn, job, attempt);
  if (phase_of<Collecting>(attempt)) return collect(turn, job, attempt);
  if (auto why = interruption(turn, job, attempt)) return turn.decide(std::move(*why));
  const std::size_t decided = turn.decisions.size();
  if (phase_of<Gathering>(attempt))
    gather(turn, job, attempt);
  else if (!release_leavers(turn, job, attempt))
    launch(turn, job, attempt);
  if (turn.decisions.size() != decided) return;
  remove_departing(turn, job, attempt);
  grow(turn, job, attempt);
  handle_spares(turn, job, attempt);
  remember_proven(turn, job, attempt);
}

void cancel_waiting(Turn& turn, const Job& job) {
  const int code = static_cast<int>(ExitCode::canceled);
  turn.decide(JobEnded{job.id, JobEndState::canceled, code, "cancelled by the user"});
}

JobEnded not_restarted(const Job& job, const AttemptCause& cause) {
  return {
      job.id, JobEndState::failed, static_cast<int>(ExitCode::launch),
      cause.sentence + "; not restarted, because it may still run on " + list_text(cause.unproven)};
}

// What the restart policy says, and what it does not know of: nothing starts while the attempt
// before may still run, and nobody is told that all is well while outputs are on nodes.
Decision after_latest_attempt(const Job& job) {
  const AttemptCause& cause = job.past.back().cause;
  Decision next = after_attempt(job);
  if (std::holds_alternative<RetryScheduled>(next) && !cause.unproven.empty()) {
    next = not_restarted(job, cause);
  }
  auto* ended = std::get_if<JobEnded>(&next);
  if (!ended || cause.left_behind.empty()) return next;
  if (ended->state != JobEndState::completed) {
    ended->reason += "; " + cause.left_behind;
    return next;
  }
  return JobEnded{job.id, JobEndState::failed, static_cast<int>(ExitCode::launch),
                  "every rank ended with 0, but " + cause.left_behind};
}

void act(Turn& turn, const Job& job) {
  if (const Attempt* attempt = active_attempt(job)) return act(turn, job, *attempt);
  if (is_undecided(job)) return turn.decisions.push_back(after_latest_attempt(job));
  if (job.cancel) cancel_waiting(turn, job);
}

}  // namespace

// Jobs that hold nodes come first; the queue is served when they have nothing left to say, so that
// it sees what they gave back.
void take_turn(Turn& turn) {
  handle_faults(turn);
  if (turn.decisions.empty()) handle_remedies(turn);
  if (!turn.decisions.empty()) return;  // what follows from them is seen in the next State
  for (const auto& [id, job] : turn.state.jobs) act(turn, job);
  if (turn.decisions.empty()) serve_queue(turn);
}

std::vector<Decision> decide(const State& state, Time now) {
  Turn turn(state, now);
  take_turn(turn);
  return std::move(turn.decisions);
}

std::optional<Time> next_wake(const State& state, Time now) {
  Turn turn(state, now);
  take_turn(turn);
  return turn.moment.next();
}

}  // namespace muster
