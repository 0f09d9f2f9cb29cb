// The journal's vocabulary. An Observation is what the world told us, a Decision is what we chose;
// a Record is either, with its time. `apply` is the only reader that changes State. Plain values.
//
// Each struct has a stable `kind` (the name in the journal) and lists its fields once in `fields`.
// A new field must be optional in meaning: older journals lack it and read as the default here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/model/clock.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/ids.h"
#include "scheduler/model/job_spec.h"
#include "scheduler/model/link.h"
#include "scheduler/model/outcome.h"

namespace muster {

// ---- observations -----------------------------------------------------------------------------

struct JobSubmitted {
  static constexpr const char* kind = "job_submitted";
  JobId job;
  JobSpec spec;
  ComputeTarget target;
  std::string user;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("spec", self.spec);
    visit("target", self.target);
    visit("user", self.user);
  }
};

// Asked again: the grace is over at once, or shortened to the one given.
struct CancelRequested {
  static constexpr const char* kind = "cancel_requested";
  JobId job;
  std::optional<Milliseconds> grace;  // overrides muster.stop.grace

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("grace", self.grace);
  }
};

// A finished job is queued again; its attempts continue their numbering. Carries what State forgot
// with the job's end: made by `resume_request` (scheduler/resume_request.h) from the job's records.
struct ResumeRequested {
  static constexpr const char* kind = "resume_requested";
  JobId job;
  std::optional<std::int64_t> from_step;  // absent: the newest sealed checkpoint
  JobSpec spec;
  ComputeTarget target;
  std::string user;
  std::int64_t next_attempt = 0;
  std::optional<CheckpointRef> newest_checkpoint;
  std::vector<Fork> forks;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("from_step", self.from_step);
    visit("spec", self.spec);
    visit("target", self.target);
    visit("user", self.user);
    visit("next_attempt", self.next_attempt);
    visit("newest_checkpoint", self.newest_checkpoint);
    visit("forks", self.forks);
  }
};

// A drained node gets nothing new. What runs there may finish, or is moved to other nodes.
struct NodeDrainSet {
  static constexpr const char* kind = "node_drain_set";
  NodeId node;
  bool drained = false;
  std::string reason;
  std::optional<Milliseconds> move_after{};  // absent: what runs may finish

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("drained", self.drained);
    visit("reason", self.reason);
    visit("move_after", self.move_after);
  }
};

// An agent answered. A new agent_id means the agent started afresh: what the old one ran is dead
// and proven gone by the new one before it answers.
struct LinkUp {
  static constexpr const char* kind = "link_up";
  NodeId node;
  std::string boot_id;
  std::string agent_id;
  std::string host_name;
  std::string job_address;  // address other nodes reach this one at
  std::vector<PhaseTime> profile{};  // how it was reached; empty: its connection was kept
  std::string methods{};             // key exchange, cipher and MAC as negotiated
  std::optional<NodeId> through{};   // the node whose agent reached it

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("boot_id", self.boot_id);
    visit("agent_id", self.agent_id);
    visit("host_name", self.host_name);
    visit("job_address", self.job_address);
    visit("profile", self.profile);
    visit("methods", self.methods);
    visit("through", self.through);
  }
};

struct LinkDown {
  static constexpr const char* kind = "link_down";
  NodeId node;
  LinkFailure failure;
  std::optional<ClockInterval> silent_since{};  // between its last word and the notice of its loss

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("failure", self.failure);
    visit("silent_since", self.silent_since);
  }
};

struct NodeChecked {
  static constexpr const char* kind = "node_checked";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::vector<CheckFailure> failures;             // empty: healthy
  std::optional<CheckpointRef> newest_checkpoint;  // of this job on this node

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("failures", self.failures);
    visit("newest_checkpoint", self.newest_checkpoint);
  }
};

// The job's files are on their way to the node: at most once a minute, and not when nothing moves.
struct StagingSeen {
  static constexpr const char* kind = "staging_seen";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::int64_t bytes = 0;  // so far

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("bytes", self.bytes);
  }
};

struct NodeStaged {
  static constexpr const char* kind = "node_staged";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::string error;  // empty: done

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("error", self.error);
  }
};

// Node 0 holds this port (and, for tensorflow, one per process on every node) for the attempt.
struct PortsReserved {
  static constexpr const char* kind = "ports_reserved";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::vector<int> ports;
  std::string error;  // empty: done

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("ports", self.ports);
    visit("error", self.error);
  }
};

// Every rank of the node has been exec'd (or could not be: error).
struct NodeStarted {
  static constexpr const char* kind = "node_started";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::string error;
  std::string directory{};  // of the job on the node, with outputs/ and logs/ in it

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("error", self.error);
    visit("directory", self.directory);
  }
};

struct RankExited {
  static constexpr const char* kind = "rank_exited";
  JobId job;
  AttemptId attempt;
  NodeId node;
  RankId rank;
  ExitStatus status;
  bool asked_to_stop = false;           // muster had signalled it before
  std::int64_t at_ms = 0;               // controller's wall clock, from the agent's age of the exit
  std::vector<std::string> last_lines;  // UTF-8, at most 20, only when it failed
  RuleVerdict rules{};                  // of its failure; `decide` asks no pattern
  std::optional<ClockInterval> when{};  // absent: the node's clock was not known yet
  ExitEvidence evidence{};

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("rank", self.rank);
    visit("status", self.status);
    visit("asked_to_stop", self.asked_to_stop);
    visit("at_ms", self.at_ms);
    visit("last_lines", self.last_lines);
    visit("rules", self.rules);
    visit("when", self.when);
    visit("evidence", self.evidence);
  }
};

// Seen the first time in an attempt, then at most every 30 s and at a newer checkpoint.
struct ProgressSeen {
  static constexpr const char* kind = "progress_seen";
  JobId job;
  AttemptId attempt;
  std::int64_t step = 0;
  std::optional<CheckpointRef> checkpoint;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("step", self.step);
    visit("checkpoint", self.checkpoint);
  }
};

// The first byte of any rank of the node has arrived.
struct FirstOutputSeen {
  static constexpr const char* kind = "first_output_seen";
  JobId job;
  AttemptId attempt;
  NodeId node;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
  }
};

// The run's pace changed: see stall_watch.h.
struct StallSeen {
  static constexpr const char* kind = "stall_seen";
  JobId job;
  AttemptId attempt;
  StallKind stall = StallKind::suspect;
  std::optional<RankId> rank;  // the one that holds up the others, when it is known
  std::optional<NodeId> blamed;
  std::optional<std::int64_t> step;  // the last one of the run
  Milliseconds silent_for{0};
  Milliseconds limit{0};  // what it was measured against
  std::string sentence;
  std::vector<std::string> evidence;  // what the ranks were doing

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("stall", self.stall);
    visit("rank", self.rank);
    visit("blamed", self.blamed);
    visit("step", self.step);
    visit("silent_for", self.silent_for);
    visit("limit", self.limit);
    visit("sentence", self.sentence);
    visit("evidence", self.evidence);
  }
};

// The node will be taken away, or (`over`) stays after all.
struct NodeNotice {
  static constexpr const char* kind = "node_notice";
  NodeId node;
  std::optional<Milliseconds> leaves_in;  // absent: not said
  std::string source;                     // who said so
  bool over = false;
  std::string boot_id{};  // of the host then: after a reboot it is over

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("leaves_in", self.leaves_in);
    visit("source", self.source);
    visit("over", self.over);
    visit("boot_id", self.boot_id);
  }
};

// Somebody has looked at why so many nodes were set aside: older findings count no more.
struct BreakerReset {
  static constexpr const char* kind = "breaker_reset";
  std::string target;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("target", self.target);
  }
};

// The agent proved from /proc that no process of the attempt exists on the node any more, and every
// byte its ranks wrote has arrived.
struct NodeClean {
  static constexpr const char* kind = "node_clean";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::optional<CheckpointRef> newest_checkpoint;
  std::vector<std::string> unkillable;  // processes that survived SIGKILL: the node is not clean

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("newest_checkpoint", self.newest_checkpoint);
    visit("unkillable", self.unkillable);
  }
};

// The attempt's outputs are on their way from the node: at most once a minute, and not when nothing
// moves.
struct CollectionSeen {
  static constexpr const char* kind = "collection_seen";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::int64_t bytes = 0;  // so far

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("bytes", self.bytes);
  }
};

// With an error, what came from the node before counts for nothing: it is lost or incomplete.
struct OutputsCollected {
  static constexpr const char* kind = "outputs_collected";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::string error;  // empty: done

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("error", self.error);
  }
};

using Observation =
    std::variant<JobSubmitted, CancelRequested, ResumeRequested, NodeDrainSet, LinkUp, LinkDown,
                 NodeChecked, StagingSeen, NodeStaged, PortsReserved, NodeStarted, RankExited,
                 ProgressSeen, NodeClean, CollectionSeen, OutputsCollected, FirstOutputSeen,
                 StallSeen, NodeNotice, BreakerReset>;

// ---- decisions --------------------------------------------------------------------------------

// Why a queued job does not start; said again only when the sentence changes.
struct JobWaits {
  static constexpr const char* kind = "job_waits";
  JobId job;
  std::string reason;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("reason", self.reason);
  }
};

// The gang is chosen: every node of it is this job's until the attempt ends. Checks begin.
struct AttemptPlaced {
  static constexpr const char* kind = "attempt_placed";
  JobId job;
  AttemptId attempt;
  std::vector<NodeId> nodes;  // index = node rank
  std::string why;            // why these nodes
  std::vector<NodeId> spares{};  // held ready to take the place of one of them

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("nodes", self.nodes);
    visit("why", self.why);
    visit("spares", self.spares);
  }
};

// A spare is given back: it is not fit, or somebody else needs it more.
struct SpareDropped {
  static constexpr const char* kind = "spare_dropped";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::string reason;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("reason", self.reason);
  }
};

// A free node is held as a spare in place of one that was used or given back.
struct SpareAdded {
  static constexpr const char* kind = "spare_added";
  JobId job;
  AttemptId attempt;
  NodeId node;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
  }
};

// A node is blamed for a failure. Says all that is known against it, because the records of jobs
// that have ended are read no more.
struct NodeSuspected {
  static constexpr const char* kind = "node_suspected";
  NodeId node;
  std::vector<NodeEvidence> evidence;  // one of each job, the newest last

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("evidence", self.evidence);
  }
};

// A node that breaks one job after another gets nothing new for a while.
struct NodeSetAside {
  static constexpr const char* kind = "node_set_aside";
  NodeId node;
  std::string reason;
  Time until;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("reason", self.reason);
    visit("until", self.until);
  }
};

// So many nodes would be set aside that the cause is hardly theirs: none is, until somebody looks.
struct BreakerOpened {
  static constexpr const char* kind = "breaker_opened";
  std::string target;
  std::string reason;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("target", self.target);
    visit("reason", self.reason);
  }
};

// A node was passed over while gathering; another takes its index.
struct NodeReplaced {
  static constexpr const char* kind = "node_replaced";
  JobId job;
  AttemptId attempt;
  NodeId old_node;
  NodeId new_node;
  std::string reason;
  Unfitness unfitness = Unfitness::unhealthy;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("old_node", self.old_node);
    visit("new_node", self.new_node);
    visit("reason", self.reason);
    visit("unfitness", self.unfitness);
  }
};

// Too few nodes passed: the gang is given back and the job waits (until muster.nodes.wait is over).
struct PlacementAbandoned {
  static constexpr const char* kind = "placement_abandoned";
  JobId job;
  AttemptId attempt;
  std::string reason;
  Time retry_at;  // not placed again before

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("reason", self.reason);
    visit("retry_at", self.retry_at);
  }
};

struct StagingBegun {
  static constexpr const char* kind = "staging_begun";
  JobId job;
  AttemptId attempt;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
  }
};

struct PortsAsked {
  static constexpr const char* kind = "ports_asked";
  JobId job;
  AttemptId attempt;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
  }
};

struct LaunchBegun {
  static constexpr const char* kind = "launch_begun";
  JobId job;
  AttemptId attempt;
  // Absent: a fresh start. An empty directory: the agent finds the newest seal of that step.
  std::optional<CheckpointRef> resume_from;
  std::string why;          // why this checkpoint, in words
  bool went_back = false;   // a newer one was known; `why` says what became of it

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("resume_from", self.resume_from);
    visit("why", self.why);
    visit("went_back", self.went_back);
  }
};

// The ranks are told to stop: signal, grace, then SIGKILL, then the proof. Again for an attempt
// that stops: only the grace counts, and only to shorten it.
struct StopBegun {
  static constexpr const char* kind = "stop_begun";
  JobId job;
  AttemptId attempt;
  StopReason reason = StopReason::canceled;
  std::string sentence;
  Milliseconds grace{30000};
  std::optional<NodeId> blamed{};  // the node that the sentence is about
  Milliseconds grace_max{0};  // how far the grace may grow while a checkpoint does; 0: not at all

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("reason", self.reason);
    visit("sentence", self.sentence);
    visit("grace", self.grace);
    visit("blamed", self.blamed);
    visit("grace_max", self.grace_max);
  }
};

enum class FenceProof {
  lease_expired,
  boot_id_changed,
  agent_restarted,
  never_started,
  none,  // its agent answers, but never says that the ranks are gone: no other attempt may follow
};

// A node that cannot prove itself clean can do no harm any more, or is not waited for any longer.
struct NodeFenced {
  static constexpr const char* kind = "node_fenced";
  JobId job;
  AttemptId attempt;
  NodeId node;
  FenceProof proof = FenceProof::lease_expired;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("proof", self.proof);
  }
};

struct CollectionBegun {
  static constexpr const char* kind = "collection_begun";
  JobId job;
  AttemptId attempt;
  std::optional<NodeId> again_from{};  // it failed before; absent: from all nodes

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("again_from", self.again_from);
  }
};

struct AttemptEnded {
  static constexpr const char* kind = "attempt_ended";
  JobId job;
  AttemptId attempt;
  AttemptCause cause;
  std::optional<CheckpointRef> newest_checkpoint;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("cause", self.cause);
    visit("newest_checkpoint", self.newest_checkpoint);
  }
};

// Another attempt will start, not before `at`, without the excluded nodes.
struct RetryScheduled {
  static constexpr const char* kind = "retry_scheduled";
  JobId job;
  AttemptId attempt;  // the one that ended
  Time at;
  bool reschedule = false;  // charged to `reschedule`, else to `restart`
  std::vector<NodeId> avoid;
  std::string rule;  // which rule or class decided, in words
  bool charged = true;   // false: counts in no budget (preempted, drained)
  bool exclude = false;  // the nodes in `avoid` are never this job's again

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("at", self.at);
    visit("reschedule", self.reschedule);
    visit("avoid", self.avoid);
    visit("rule", self.rule);
    visit("charged", self.charged);
    visit("exclude", self.exclude);
  }
};

struct JobEnded {
  static constexpr const char* kind = "job_ended";
  JobId job;
  JobEndState state = JobEndState::failed;
  int exit_code = 0;
  std::string reason;  // one sentence

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("state", self.state);
    visit("exit_code", self.exit_code);
    visit("reason", self.reason);
  }
};

using Decision =
    std::variant<JobWaits, AttemptPlaced, NodeReplaced, PlacementAbandoned, StagingBegun,
                 PortsAsked, LaunchBegun, StopBegun, NodeFenced, CollectionBegun, AttemptEnded,
                 RetryScheduled, JobEnded, SpareDropped, SpareAdded, NodeSuspected, NodeSetAside,
                 BreakerOpened>;

struct Record {
  Time at;
  std::variant<Observation, Decision> what;
};

}  // namespace muster
