// What records say about things that came to an end or were looked at: exits, checks, checkpoints,
// causes. Plain values, as in record.h: `fields` lists each once, new ones are optional in meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/ids.h"
#include "scheduler/model/job_spec.h"
#include "scheduler/text/fields.h"

namespace muster {

// How one process ended, as its agent reaped it.
struct ExitStatus {
  int code = 0;    // meaningful when signal is 0
  int signal = 0;  // 0: exited by itself
  bool core_dumped = false;
  bool ok() const { return code == 0 && signal == 0; }

  MUSTER_FIELDS(code, signal, core_dumped)
};

// When something happened: not before the one, not after the other, on the monotonic clock of the
// controller's host. Comparable with another only when `clock`, the host's boot, is the same.
struct ClockInterval {
  std::int64_t earliest_us = 0;
  std::int64_t latest_us = 0;
  std::string clock;

  MUSTER_FIELDS(earliest_us, latest_us, clock)
};

// What the agent found about a rank's end beside its status and its output.
struct ExitEvidence {
  std::string oom;                        // what the kernel says of memory; empty: nothing
  std::optional<std::int64_t> last_step;  // of this rank's heartbeat
  bool with_mpirun = false;               // left no record: it went when mpirun or its daemon did
  std::string error;                      // what its error file says; empty: it wrote none
  bool never_met = false;                 // nobody ever listened on MASTER_PORT, on its node

  MUSTER_FIELDS(oom, last_step, with_mpirun, error, never_met)
};

// One failed check of the start gate: which, and a sentence with the measured and the wanted value.
struct CheckFailure {
  std::string check;
  std::string message;
  bool lasting = false;  // waiting does not mend it: nobody installs a program meanwhile

  MUSTER_FIELDS(check, message, lasting)
};

// What was wrong with a node that was passed over while gathering.
enum class Unfitness { drained, unreachable, unhealthy, lasting };

// A failure that a node is blamed for, kept beyond the job that it broke.
struct NodeEvidence {
  JobId job;
  Time at;
  std::string what;  // the cause of the attempt's end, in a sentence

  MUSTER_FIELDS(job, at, what)
};

// A complete checkpoint as an agent found it on its node: muster-train's, or one that another
// program wrote in a format of its own.
struct CheckpointRef {
  static constexpr std::int64_t no_step = -1;  // its name does not say it

  std::int64_t step = 0;
  std::string directory;        // absolute path on the node; of another program also a file
  std::string kind{};           // of another program's, as checkpoint.format calls it
  std::int64_t changed_ms = 0;  // since 1970, by the file system; of another program's

  bool is_foreign() const { return !kind.empty(); }
  std::optional<std::int64_t> known_step() const {
    return step == no_step ? std::nullopt : std::optional(step);
  }

  MUSTER_FIELDS(step, directory, kind, changed_ms)
};

// A launch makes checkpoints of older epochs beyond its step obsolete: they are another history.
struct Fork {
  Epoch epoch;
  std::int64_t step = 0;

  MUSTER_FIELDS(epoch, step)
};

// `finished`: every rank ended with 0; the nodes still prove themselves clean.
enum class StopReason {
  canceled,
  time_limit,
  rank_failed,
  node_lost,
  start_failed,
  drained,
  finished,
  hung,
  preempted,
  faulty,    // a health check found a node of it unfit to go on
  rescaled,  // the next attempt has more nodes
};

// How the pace of a run changed.
enum class StallKind {
  slow,     // far from the pace it had: a warning
  suspect,  // nothing moves for longer than its pace allows: evidence is collected
  hung,     // it does not go on by itself
  over,     // it moves again
};

// Time spent in one phase of reaching a node.
struct PhaseTime {
  std::string phase;
  std::int64_t us = 0;

  MUSTER_FIELDS(phase, us)
};

enum class JobEndState { completed, failed, canceled };

enum class RuleOrigin { job, site, built_in };

// The rule that decides about an exit, with all that follows from it: what the journal holds stays
// true when the tables change.
struct MatchedRule {
  std::string id;
  RuleOrigin origin = RuleOrigin::built_in;
  std::optional<FailureClass> failure_class;
  std::optional<Reaction> action;
  std::optional<Milliseconds> delay;
  std::string advice;
  bool cascade = false;
  bool doubts_state = false;

  MUSTER_FIELDS(id, origin, failure_class, action, delay, advice, cascade, doubts_state)
};

// What the rules in force say of one exit (scheduler/restart/rule_book.h).
struct RuleVerdict {
  std::optional<MatchedRule> rule;
  std::vector<std::string> only_logged;  // names of rules of `mode: log` that hold and come before

  MUSTER_FIELDS(rule, only_logged)
};

// Somebody who may have failed first.
struct FailureCandidate {
  std::optional<RankId> rank;  // absent: the node itself
  NodeId node;
  std::string how;  // "was killed by SIGSEGV"

  MUSTER_FIELDS(rank, node, how)
};

// Who failed first, or why that cannot be told: see first_failure.h.
struct FirstFailure {
  std::optional<RankId> rank;  // absent: a node, or nobody is named
  std::optional<NodeId> node;  // absent: nobody is named
  std::optional<std::int64_t> at_ms;  // controller's wall clock
  // The next failure of any kind came this much later, give or take the uncertainty. Absent: there
  // was none, or the order in time is not known and the evidence decided.
  std::optional<std::int64_t> margin_us;
  std::optional<std::int64_t> uncertainty_us;
  int followed = 0;                          // failures beside the one named or the candidates
  std::vector<FailureCandidate> candidates;  // when nobody is named
  std::vector<std::string> evidence;         // about the one named

  MUSTER_FIELDS(rank, node, at_ms, margin_us, uncertainty_us, followed, candidates, evidence)
};

// Why an attempt ended, for `explain` and the report: the class and the evidence in one sentence.
struct AttemptCause {
  bool succeeded = false;
  FailureClass failure_class = FailureClass::user;
  std::string sentence;                 // "rank 1 on local-1 was killed by SIGKILL"
  std::optional<RankId> first_rank;     // first failed rank, when one is known
  std::optional<NodeId> first_node;
  ExitStatus status;                    // of that rank
  bool made_progress = false;           // a step or a newer checkpoint was seen in this attempt
  std::vector<std::string> last_lines;  // of that rank's output
  StopReason reason = StopReason::rank_failed;  // what stopped the attempt
  std::string left_behind{};             // outputs that are still on nodes; empty: none
  std::vector<NodeId> unproven{};        // nodes on which it may still run
  RuleVerdict rules{};                   // of the rank whose exit is the cause
  std::optional<FirstFailure> first_failure{};  // of an attempt in which something failed

  MUSTER_FIELDS(succeeded, failure_class, sentence, first_rank, first_node, status, made_progress,
                last_lines, reason, left_behind, unproven, rules, first_failure)
};

// What a rank does, seen from outside: its agent reads it from /proc, never from the rank. Plain
// values; they travel between agent and controller and are not journaled. StallWatch::what_it_does
// has words for them, in this order.

enum class Doing {
  moving,   // bytes go through its files and pipes
  working,  // it uses a processor
  quiet,    // neither, for ten seconds: it waits or sleeps
  stuck,    // the kernel holds it (state D), and nothing moves
  stopped,  // by a signal (state T): by nobody's design it goes on
};

struct RankDoing {
  RankId rank;
  Doing doing = Doing::working;
  std::int64_t age_ms = 0;  // since when it does that, on the node's clock
  std::string process;      // "4711 (python)": the one that is stopped or stuck

  MUSTER_FIELDS(rank, doing, age_ms, process)
};

}  // namespace muster
