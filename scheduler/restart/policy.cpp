#include "scheduler/restart/policy.h"

#include <algorithm>
#include <csignal>

#include "scheduler/model/exit_code.h"
#include "scheduler/model/names.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/resume_point.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

const PastAttempt& last(const Job& job) {
  return job.past.back();
}

JobEnded end(const Job& job, ExitCode code, const std::string& reason) {
  return {job.id, JobEndState::failed, static_cast<int>(code), reason};
}

// Of a failure that is no rank's own.
ExitCode code_of_class(const PastAttempt& past) {
  const FailureClass failure_class = past.cause.failure_class;
  if (failure_class == FailureClass::hang) return ExitCode::hang;
  if (failure_class != FailureClass::preempted) return ExitCode::launch;
  return past.saved_last_step ? ExitCode::preempted_saved : ExitCode::preempted_unsaved;
}

JobEnded end_with_own_code(const Job& job, const std::string& reason) {
  const AttemptCause& cause = last(job).cause;
  const bool is_preempted = cause.failure_class == FailureClass::preempted;
  if (cause.status.ok() || is_preempted) return end(job, code_of_class(last(job)), reason);
  const int code = cause.status.signal ? exit_code_of_signal(cause.status.signal)
                                       : exit_code_of_rank_code(cause.status.code);
  return {job.id, JobEndState::failed, code, reason};
}

// ---- what the table and the user's settings say -----------------------------------------------

struct Verdict {
  Reaction action = Reaction::backoff;
  bool asked_for = false;  // by a rule that knows the failure to pass: two alike prove nothing
};

Reaction default_action(const AttemptCause& cause) {
  if (cause.reason == StopReason::start_failed) return Reaction::backoff;
  if (cause.reason == StopReason::faulty) return Reaction::retry;  // the drain keeps the node away
  constexpr Reaction of_class[] = {
      Reaction::backoff,       // user
      Reaction::retry,         // infra
      Reaction::exclude_node,  // hw
      Reaction::retry,         // hang
      Reaction::exclude_node,  // sdc
      Reaction::retry,         // preempted
      Reaction::stop,          // divergence
  };
  static_assert(std::size(of_class) == EnumWords<FailureClass>::words.size());
  return of_class[static_cast<std::size_t>(cause.failure_class)];
}

// The job could not be started, and that is its own doing: whatever its settings say of its
// program's failures, it would not start the next time either.
bool is_lasting(const AttemptCause& cause) {
  return cause.reason == StopReason::start_failed && cause.failure_class == FailureClass::user;
}

// A built-in rule does not stop for good what has worked, unless it would do the same again.
Reaction built_in_action(const AttemptCause& cause, Reaction action) {
  const bool worked = cause.made_progress && cause.failure_class != FailureClass::divergence;
  return action == Reaction::stop && worked ? Reaction::backoff : action;
}

// The job's and the site's rules, then the job's word on the class, then what muster ships.
Verdict verdict_on(const Job& job, const AttemptCause& cause) {
  if (is_lasting(cause)) return {Reaction::stop, false};
  const auto& rule = cause.rules.rule;
  const bool acts = rule && rule->action;
  if (acts && rule->origin != RuleOrigin::built_in) return {*rule->action, true};
  const auto& actions = job.spec.muster.class_actions;
  const auto found = actions.find(std::string(word(cause.failure_class)));
  if (found != actions.end()) return {found->second, false};
  if (acts) return {built_in_action(cause, *rule->action), rule->delay.has_value()};
  return {default_action(cause), false};
}

std::string said(const AttemptCause& cause, Reaction action) {
  return said_by_rules(cause) + ": " + std::string(word(action)) + advice_of(cause);
}

// ---- budgets ----------------------------------------------------------------------------------

// A node went of an elastic job that had made progress: it goes on with the others.
bool has_other_nodes_next(const Job& job, const AttemptCause& cause) {
  const bool is_of_node = cause.reason == StopReason::node_lost ||
                          cause.reason == StopReason::faulty ||
                          cause.failure_class == FailureClass::hw;
  return is_of_node && cause.made_progress && restarts_to_scale(job.spec);
}

// A rank's own word for its preemption is free only after progress, or a program that prints it at
// once would be started for ever.
bool is_charged(const Job& job, const AttemptCause& cause) {
  if (has_other_nodes_next(job, cause)) return false;
  if (cause.failure_class != FailureClass::preempted) return true;
  return cause.rules.rule && !cause.made_progress;
}

// Excluding a node moves the job, whatever the class; else what the job did restarts in place.
bool is_rescheduled(const AttemptCause& cause, Reaction action) {
  const bool moves = action == Reaction::exclude_node && cause.first_node.has_value();
  return moves || (cause.failure_class != FailureClass::user &&
                   cause.failure_class != FailureClass::divergence);
}

struct Budget {
  int used = 0;
  int attempts = 0;
  Seconds interval{0};
  bool unlimited = false;
  const char* name = "restart";
  bool is_empty() const { return !unlimited && used >= attempts; }
};

Budget budget_of(const Job& job, bool reschedule) {
  const MusterSettings& settings = job.spec.muster;
  Budget budget{0, settings.restart.attempts, settings.restart.interval, false, "restart"};
  if (reschedule) {
    budget = {0, settings.reschedule.attempts, settings.reschedule.interval,
              settings.reschedule.unlimited, "reschedule"};
  }
  const Time begin = last(job).ended_at - budget.interval;
  for (const PastAttempt& past : job.past) {
    const bool counts = past.charged && past.reschedule == reschedule && past.ended_at > begin;
    budget.used += counts ? 1 : 0;
  }
  return budget;
}

// Which restart of its budget this one would be: "restart 2 of 3 (per 1 h)".
std::string budget_text(const Budget& budget) {
  std::string text = std::string(budget.name) + " " + std::to_string(budget.used + 1);
  if (!budget.unlimited) text += " of " + std::to_string(budget.attempts);
  return text + " (per " + duration_text(budget.interval) + ")";
}

ExitCode exhausted_code(FailureClass failure_class) {
  const bool is_of_nodes =
      failure_class == FailureClass::infra || failure_class == FailureClass::hw;
  if (is_of_nodes) return ExitCode::launch;
  return failure_class == FailureClass::hang ? ExitCode::hang : ExitCode::gave_up;
}

// ---- loops that restarting does not end -------------------------------------------------------

// A program that tells nothing of its progress, and was killed from outside, may have made some.
bool is_same_early_exit(const PastAttempt& a, const PastAttempt& b) {
  const auto early = [](const AttemptCause& cause) {
    return cause.reason == StopReason::rank_failed && !cause.made_progress &&
           cause.failure_class == FailureClass::user && cause.status.signal != SIGKILL &&
           cause.status.signal != SIGTERM;
  };
  return early(a.cause) && early(b.cause) && a.cause.status.code == b.cause.status.code &&
         a.cause.status.signal == b.cause.status.signal;
}

bool failed_early_twice(const Job& job) {
  const std::size_t n = job.past.size();
  return n >= 2 && is_same_early_exit(job.past[n - 2], job.past[n - 1]);
}

// Starts that failed on a node are bounded by their own budget, and say little about the program.
bool counts_as_cycle(const Job& job, const PastAttempt& past) {
  const bool bounded_elsewhere =
      past.cause.reason == StopReason::start_failed && !job.spec.muster.reschedule.unlimited;
  return is_charged(job, past.cause) && !bounded_elsewhere;
}

// Attempts in a row, up to the latest, that brought the job no further: a program that starts over
// each time never passes the step that it had reached. The first attempt of all is not a restart.
int cycles_without_progress(const Job& job) {
  int cycles = 0;
  for (std::size_t i = job.past.size(); i-- > 0;) {
    if (job.past[i].advanced) return cycles;
    if (i > 0 && counts_as_cycle(job, job.past[i])) ++cycles;
  }
  return cycles;
}

// What such attempts lacked, as far as it is known.
std::string lacked_progress(const Job& job) {
  const std::int64_t reached = step_reached(job);
  if (reached == 0) return " without a newer checkpoint";
  return " without a newer checkpoint or a step above " + std::to_string(reached);
}

int hangs_in_a_row(const Job& job) {
  const auto other = std::find_if(job.past.rbegin(), job.past.rend(), [](const PastAttempt& past) {
    return past.cause.failure_class != FailureClass::hang;
  });
  return static_cast<int>(other - job.past.rbegin());
}

int failures_without_progress(const Job& job) {
  const auto progress =
      std::find_if(job.past.rbegin(), job.past.rend(),
                   [](const PastAttempt& past) { return past.cause.made_progress; });
  const auto failures = progress - job.past.rbegin() + (progress == job.past.rend() ? 0 : 1);
  return static_cast<int>(failures);
}

// ---- the order in which they are asked --------------------------------------------------------

std::optional<Decision> end_by_plan(const Job& job) {
  const AttemptCause& cause = last(job).cause;
  if (cause.succeeded && !job.not_uploaded.empty()) {
    return JobEnded{job.id, job.cancel ? JobEndState::canceled : JobEndState::failed,
                    static_cast<int>(job.cancel ? ExitCode::canceled : ExitCode::launch),
                    "the ranks succeeded, but " + job.not_uploaded};
  }
  if (cause.succeeded) {
    return JobEnded{job.id, JobEndState::completed, 0, cause.sentence};
  }
  const auto canceled = [&](ExitCode code, const std::string& reason) {
    return JobEnded{job.id, JobEndState::canceled, static_cast<int>(code), reason};
  };
  if (job.cancel) return canceled(ExitCode::canceled, "cancelled by the user");
  if (cause.reason == StopReason::time_limit) {
    return canceled(ExitCode::time_limit, "timeout: " + cause.sentence);
  }
  return std::nullopt;
}

bool asks_to_give_up(const AttemptCause& cause) {
  return cause.reason == StopReason::rank_failed && cause.status.signal == 0 &&
         cause.status.code == static_cast<int>(ExitCode::gave_up);
}

std::optional<Decision> end_of_hope(const Job& job, const Verdict& verdict) {
  const AttemptCause& cause = last(job).cause;
  const std::string& what = cause.sentence;
  if (asks_to_give_up(cause)) {
    return end(job, ExitCode::gave_up, what + ", which asks not to be restarted");
  }
  if (verdict.action == Reaction::stop && cause.failure_class == FailureClass::divergence) {
    return end(job, ExitCode::gave_up, what + " (" + said(cause, verdict.action) + ")");
  }
  if (verdict.action == Reaction::stop) {
    return end_with_own_code(job, what + " (" + said(cause, verdict.action) + ")");
  }
  if (casts_doubt(cause) && job.newest_checkpoint && job.newest_checkpoint->is_foreign()) {
    return end(job, ExitCode::gave_up,
               what +
                   "; it is not known which of the program's checkpoints were saved before "
                   "that, the newest is " +
                   job.newest_checkpoint->directory +
                   ": set muster.resume.from to the one to start from");
  }
  if (hangs_in_a_row(job) >= 3) return end(job, ExitCode::hang, what + ", three times in a row");
  const Budget budget = budget_of(job, is_rescheduled(cause, verdict.action));
  const bool charged = is_charged(job, cause);
  if (charged && budget.attempts == 0 && !budget.unlimited) {
    return end_with_own_code(job, what + " (muster." + budget.name + ".attempts is 0)");
  }
  if (!verdict.asked_for && failed_early_twice(job)) {
    return end(job, ExitCode::gave_up, what + ", twice in the same way before any progress");
  }
  const int cycles = cycles_without_progress(job);
  if (charged && cycles >= std::max(1, job.spec.muster.no_progress_cycles)) {
    return end(job, ExitCode::gave_up,
               what + "; " + count_text(static_cast<std::size_t>(cycles), "restart") +
                   lacked_progress(job) + " (muster.no_progress.cycles)");
  }
  if (charged && budget.is_empty()) {
    return end(job, exhausted_code(cause.failure_class),
               what + "; all " + std::to_string(budget.attempts) + " of muster." + budget.name +
                   ".attempts within " + duration_text(budget.interval) + " are used");
  }
  return std::nullopt;
}

RestartSettings delays_of(const Job& job) {
  RestartSettings delays = job.spec.muster.restart;
  const auto& rule = last(job).cause.rules.rule;
  if (rule && rule->delay) {
    delays.delay = *rule->delay;
    delays.max_delay = std::max(delays.delay, delays.max_delay);
  }
  return delays;
}

// The first restart of a job waits for nothing, unless a rule knows what to wait for.
Milliseconds delay_of(const Job& job, Reaction action) {
  const AttemptCause& cause = last(job).cause;
  const bool is_rules = cause.rules.rule && cause.rules.rule->delay;
  const bool is_first = std::none_of(job.past.begin(), job.past.end() - 1,
                                     [](const PastAttempt& past) { return past.charged; });
  if (!is_charged(job, cause) || (is_first && !is_rules)) return Milliseconds{0};
  const int n = action == Reaction::backoff ? failures_without_progress(job) : 1;
  const RestartSettings delays = delays_of(job);
  return std::min(with_jitter(retry_delay(delays, n), job.id, last(job).id), delays.max_delay);
}

RetryScheduled retry(const Job& job, const Verdict& verdict) {
  const PastAttempt& past = last(job);
  RetryScheduled retry;
  retry.job = job.id;
  retry.attempt = past.id;
  const Milliseconds delay = delay_of(job, verdict.action);
  retry.at = past.ended_at + delay;
  retry.exclude = verdict.action == Reaction::exclude_node && past.cause.first_node.has_value();
  retry.reschedule = is_rescheduled(past.cause, verdict.action);
  retry.charged = is_charged(job, past.cause);
  if (retry.reschedule && past.cause.first_node) retry.avoid = {*past.cause.first_node};
  retry.rule = said(past.cause, verdict.action);
  if (retry.charged) {
    retry.rule +=
        "; " + budget_text(budget_of(job, retry.reschedule)) + " after " + duration_text(delay);
  }
  for (const NodeId& node : retry.avoid) {
    retry.rule += (retry.exclude ? ", never again on " : ", not on ") + node.value;
  }
  return retry;
}

template <class Submission>
void take_submission(ResumeRequested& request, const Submission& record) {
  request.job = record.job;
  request.spec = record.spec;
  request.target = record.target;
  request.user = record.user;
}

void take_launch(ResumeRequested& request, const LaunchBegun& launch) {
  // Whatever was newer is another history.
  request.newest_checkpoint = launch.resume_from;
  add_fork(request.forks, epoch_of(launch.attempt), base_step(launch.resume_from));
  request.certified_because.reset();
}

void take(ResumeRequested& request, const Record& record) {
  if (const auto* submitted = record_as<JobSubmitted>(record)) {
    take_submission(request, *submitted);
    request.next_attempt = 0;
    request.newest_checkpoint.reset();
    request.forks.clear();
    request.certified_because.reset();
    request.first_launch.reset();
  } else if (const auto* resumed = record_as<ResumeRequested>(record)) {
    take_submission(request, *resumed);
  } else if (const auto* placed = record_as<AttemptPlaced>(record)) {
    request.next_attempt = std::max(request.next_attempt, placed->attempt.value + 1);
  } else if (const auto* launch = record_as<LaunchBegun>(record)) {
    if (!request.first_launch) request.first_launch = record.at;
    take_launch(request, *launch);
  } else if (const auto* ended = record_as<AttemptEnded>(record)) {
    keep_newer(request.newest_checkpoint, ended->newest_checkpoint);
    if (casts_doubt(ended->cause)) request.certified_because = doubt_text(ended->cause);
  }
}

const JobEnded* end_of(const std::vector<Record>& records) {
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record_as<JobSubmitted>(*record) || record_as<ResumeRequested>(*record)) return nullptr;
    if (const auto* ended = record_as<JobEnded>(*record)) return ended;
  }
  return nullptr;
}

}  // namespace

Decision after_attempt(const Job& job) {
  if (auto ended = end_by_plan(job)) return *ended;
  const Verdict verdict = verdict_on(job, last(job).cause);
  if (auto ended = end_of_hope(job, verdict)) return *ended;
  return retry(job, verdict);
}

bool asks_to_stop(const Job& job, const AttemptCause& cause) {
  return asks_to_give_up(cause) || verdict_on(job, cause).action == Reaction::stop;
}

Milliseconds retry_delay(const RestartSettings& settings, int n) {
  Milliseconds delay = settings.delay, previous{0};
  const int steps = settings.delay_function == DelayFunction::constant ? 1 : n;
  for (int i = 1; i < steps && delay < settings.max_delay; ++i) {
    const bool doubles = settings.delay_function == DelayFunction::exponential;
    const Milliseconds next = doubles ? delay * 2 : delay + previous;
    previous = delay;
    delay = next;
  }
  return std::min(delay, settings.max_delay);
}

Milliseconds with_jitter(Milliseconds delay, const JobId& job, AttemptId attempt) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  const auto mix = [&](char c) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  };
  for (const char c : job.value) mix(c);
  for (const char c : std::to_string(attempt.value)) mix(c);
  const std::int64_t permille = 800 + static_cast<std::int64_t>((hash >> 16) % 401);
  return Milliseconds{delay.count() * permille / 1000};
}

Result<ResumeRequested> resume_request(const std::vector<Record>& records,
                                       std::optional<std::int64_t> from_step, bool from_certified) {
  ResumeRequested request;
  for (const Record& record : records) take(request, record);
  if (request.job.value.empty()) return Error{"there is no such job to resume"};
  const std::string name = "job " + request.job.value;
  const JobEnded* ended = end_of(records);
  if (!ended) return Error{name + " has not ended: it continues by itself"};
  if (ended->state == JobEndState::completed && !from_step && !from_certified) {
    return Error{name + " is completed; name a step to go back to with --from"};
  }
  const auto& newest = request.newest_checkpoint;
  if (from_certified && newest && newest->is_foreign()) {
    return Error{"no checkpoint of " + name + " is certified: they are another program's (" +
                 newest->kind + "); name a step with --from"};
  }
  request.from_step = from_step;
  if (from_step) request.certified_because.reset();
  if (from_certified) request.certified_because = "it was requested";
  return request;
}

}  // namespace muster
