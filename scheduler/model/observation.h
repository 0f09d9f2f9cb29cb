// The half of the journal's vocabulary that the world says: see record.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/model/compute.h"
#include "scheduler/model/ids.h"
#include "scheduler/model/job_spec.h"
#include "scheduler/model/keep.h"
#include "scheduler/model/link.h"
#include "scheduler/model/node_fault.h"
#include "scheduler/model/outcome.h"
#include "scheduler/model/remediation.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

struct JobSubmitted {
  static constexpr const char* kind = "job_submitted";
  JobId job;
  JobSpec spec;
  ComputeTarget target;
  std::string user;

  MUSTER_FIELDS(job, spec, target, user)
};

// Asked again: the grace is over at once, or shortened to the one given.
struct CancelRequested {
  static constexpr const char* kind = "cancel_requested";
  JobId job;
  std::optional<Milliseconds> grace;  // overrides muster.stop.grace

  MUSTER_FIELDS(job, grace)
};

// Another controller continues a job that lives: the one before was ended, or the host was.
struct ControllerRestarted {
  static constexpr const char* kind = "controller_restarted";
  static constexpr bool is_told_only = true;
  JobId job;

  MUSTER_FIELDS(job)
};

// A finished job is queued again; its attempts continue their numbering. Carries what State forgot
// with the job's end: made by `resume_request` (scheduler/restart/policy.h) from the job's
// records.
struct ResumeRequested {
  static constexpr const char* kind = "resume_requested";
  JobId job;
  std::optional<std::int64_t> from_step;  // absent: the newest committed checkpoint
  JobSpec spec;
  ComputeTarget target;
  std::string user;
  std::int64_t next_attempt = 0;
  std::optional<CheckpointRef> newest_checkpoint;
  std::vector<Fork> forks;
  std::optional<std::string> certified_because{};  // only a certified checkpoint will do, and why
  std::optional<Time> first_launch{};              // of the job's first attempt

  MUSTER_FIELDS(job, from_step, spec, target, user, next_attempt, newest_checkpoint, forks,
                certified_because, first_launch)
};

// A drained node gets no new job. What runs there may finish, or is moved to other nodes.
struct NodeDrainSet {
  static constexpr const char* kind = "node_drain_set";
  static constexpr Keep keep = Keep::newest;
  NodeId node;
  bool drained = false;
  std::string reason;
  std::optional<Milliseconds> move_after{};  // absent: what runs may finish

  std::string keep_key() const { return drained ? "1" : "0"; }
  MUSTER_FIELDS(node, drained, reason, move_after)
};

// An agent answered. A new agent_id means the agent started afresh: what the old one ran is dead
// and confirmed stopped by the new one before it answers.
struct LinkUp {
  static constexpr const char* kind = "link_up";
  static constexpr Keep keep = Keep::newest;
  NodeId node;
  std::string boot_id;
  std::string agent_id;
  std::string host_name;
  std::string job_address;           // address other nodes reach this one at
  std::vector<PhaseTime> profile{};  // how it was reached; empty: its connection was kept
  std::string methods{};             // key exchange, cipher and MAC as negotiated
  std::optional<NodeId> through{};   // the node whose agent reached it
  int gpus = 0;                      // that the driver has there
  std::string first_contact{};       // with its host key, a sentence; empty: it was known
  Milliseconds lease{0};             // that the agent holds; 0: what its target says

  MUSTER_FIELDS(node, boot_id, agent_id, host_name, job_address, profile, methods, through, gpus,
                first_contact, lease)
};

struct LinkDown {
  static constexpr const char* kind = "link_down";
  static constexpr Keep keep = Keep::newest;
  NodeId node;
  LinkFailure failure;
  std::optional<ClockInterval> silent_since{};  // between its last word and the notice of its loss
  bool is_untried = false;  // the controller has just begun: it has not looked for the node
  Milliseconds silent{0};   // since its last word on a link that was up, by the controller's clock

  MUSTER_FIELDS(node, failure, silent_since, is_untried, silent)
};

struct NodeChecked {
  static constexpr const char* kind = "node_checked";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::vector<CheckFailure> failures;              // empty: healthy
  std::optional<CheckpointRef> newest_checkpoint;  // of this job on this node
  std::optional<CheckpointRef> newest_certified{};
  std::optional<CheckpointRef> asked_checkpoint{};  // of the step that `resume --from` names
  std::vector<std::string> quarantined{};           // names that incomplete checkpoints have now

  MUSTER_FIELDS(job, attempt, node, failures, newest_checkpoint, newest_certified, asked_checkpoint,
                quarantined)
};

// The job's files are on their way to the node: at most once a minute, and not when nothing moves.
struct StagingSeen {
  static constexpr const char* kind = "staging_seen";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::int64_t bytes = 0;  // so far
  std::string doing{};     // what the node says it is at: "image 1.2 of 7.9 GB"; more often told

  MUSTER_FIELDS(job, attempt, node, bytes, doing)
};

struct NodeStaged {
  static constexpr const char* kind = "node_staged";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::string error;     // empty: done
  bool lasting = false;  // the job's own doing: no node and no later try would do better
  std::vector<std::string> streamed{};  // inputs whose data are read from their store meanwhile

  MUSTER_FIELDS(job, attempt, node, error, lasting, streamed)
};

// Node 0 holds this port (and, for tensorflow, one per process on every node) for the attempt.
struct PortsReserved {
  static constexpr const char* kind = "ports_reserved";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::vector<int> ports;
  std::string error;  // empty: done

  MUSTER_FIELDS(job, attempt, node, ports, error)
};

// Every rank of the node has been exec'd (or could not be: error).
struct NodeStarted {
  static constexpr const char* kind = "node_started";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::string error;
  std::string directory{};  // of the job on the node, with outputs/ and logs/ in it
  bool lasting = false;     // as of NodeStaged

  MUSTER_FIELDS(job, attempt, node, error, directory, lasting)
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

  MUSTER_FIELDS(job, attempt, node, rank, status, asked_to_stop, at_ms, last_lines, rules, when,
                evidence)
};

// Seen the first time in an attempt, then at most every 30 s and at a newer checkpoint.
struct ProgressSeen {
  static constexpr const char* kind = "progress_seen";
  JobId job;
  AttemptId attempt;
  std::int64_t step = 0;
  std::optional<CheckpointRef> checkpoint;

  MUSTER_FIELDS(job, attempt, step, checkpoint)
};

// The first byte of any rank of the node has arrived.
struct FirstOutputSeen {
  static constexpr const char* kind = "first_output_seen";
  static constexpr bool is_told_only = true;
  JobId job;
  AttemptId attempt;
  NodeId node;

  MUSTER_FIELDS(job, attempt, node)
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

  MUSTER_FIELDS(job, attempt, stall, rank, blamed, step, silent_for, limit, sentence, evidence)
};

// The node will be taken away, or (`over`) stays after all.
struct NodeNotice {
  static constexpr const char* kind = "node_notice";
  static constexpr Keep keep = Keep::newest;
  NodeId node;
  std::optional<Milliseconds> leaves_in;  // absent: not said
  std::string source;                     // who said so
  bool over = false;
  std::string boot_id{};   // of the host then: after a reboot it is over
  std::string agent_id{};  // that said so: the next one has to say it again

  MUSTER_FIELDS(node, leaves_in, source, over, boot_id, agent_id)
};

// Somebody has looked at why so many nodes were set aside or drained: older findings count no more.
struct BreakerReset {
  static constexpr const char* kind = "breaker_reset";
  static constexpr Keep keep = Keep::newest;
  std::string target;  // or a check's breaker; "ib.phys": that of each target

  std::string keep_key() const { return target; }
  MUSTER_FIELDS(target)
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
  std::optional<CheckpointRef> newest_certified{};

  MUSTER_FIELDS(job, attempt, node, newest_checkpoint, unkillable, newest_certified)
};

// The attempt's outputs are on their way from the node: at most once a minute, and not when nothing
// moves.
struct CollectionSeen {
  static constexpr const char* kind = "collection_seen";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::int64_t bytes = 0;  // so far

  MUSTER_FIELDS(job, attempt, node, bytes)
};

// With an error, what came from the node before counts for nothing: it is lost or incomplete.
struct OutputsCollected {
  static constexpr const char* kind = "outputs_collected";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::string error;  // empty: done

  MUSTER_FIELDS(job, attempt, node, error)
};

// What was collected is in the stores, and in the catalogue, that the job file names; or why not.
struct OutputsDelivered {
  static constexpr const char* kind = "outputs_delivered";
  JobId job;
  AttemptId attempt;
  std::string error;  // empty: done

  MUSTER_FIELDS(job, attempt, error)
};

// Every rank of a node that joins has written its heartbeat: it can be made a member.
struct NodeReady {
  static constexpr const char* kind = "node_ready";
  JobId job;
  AttemptId attempt;
  NodeId node;

  MUSTER_FIELDS(job, attempt, node)
};

// The node's membership file says this epoch, or (error) could not be written.
struct MembersTold {
  static constexpr const char* kind = "members_told";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::int64_t members_epoch = 0;
  std::string error;

  MUSTER_FIELDS(job, attempt, node, members_epoch, error)
};

using Observation =
    std::variant<JobSubmitted, CancelRequested, ResumeRequested, NodeDrainSet, LinkUp, LinkDown,
                 NodeChecked, StagingSeen, NodeStaged, PortsReserved, NodeStarted, RankExited,
                 ProgressSeen, NodeClean, CollectionSeen, OutputsCollected, FirstOutputSeen,
                 StallSeen, NodeNotice, BreakerReset, NodeReady, MembersTold, NodeFaultsSeen,
                 RemedyEnded, ControllerRestarted, OutputsDelivered>;

}  // namespace muster
