// The half of the journal's vocabulary that `decide` says: see record.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/model/ids.h"
#include "scheduler/model/keep.h"
#include "scheduler/model/node_fault.h"
#include "scheduler/model/outcome.h"
#include "scheduler/model/remediation.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

// Why a queued job does not start; said again only when the sentence changes.
struct JobPending {
  static constexpr const char* kind = "job_waits";
  JobId job;
  std::string reason;

  MUSTER_FIELDS(job, reason)
};

// The gang is chosen: every node of it is this job's until the attempt ends. Checks begin.
struct AttemptPlaced {
  static constexpr const char* kind = "attempt_placed";
  JobId job;
  AttemptId attempt;
  std::vector<NodeId> nodes;     // index = node rank
  std::string why;               // why these nodes
  std::vector<NodeId> spares{};  // held ready to take the place of one of them

  MUSTER_FIELDS(job, attempt, nodes, why, spares)
};

// A spare is given back: it is not fit, or somebody else needs it more.
struct SpareDropped {
  static constexpr const char* kind = "spare_dropped";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::string reason;

  MUSTER_FIELDS(job, attempt, node, reason)
};

// A free node is held as a spare in place of one that was used or given back.
struct SpareAdded {
  static constexpr const char* kind = "spare_added";
  JobId job;
  AttemptId attempt;
  NodeId node;

  MUSTER_FIELDS(job, attempt, node)
};

// A node is blamed for a failure. Says all that is known against it, because the records of jobs
// that have ended are read no more.
struct NodeSuspected {
  static constexpr const char* kind = "node_suspected";
  static constexpr Keep keep = Keep::newest;
  NodeId node;
  std::vector<NodeEvidence> evidence;  // one of each job, the newest last

  MUSTER_FIELDS(node, evidence)
};

// A node that breaks one job after another gets no new job for a while.
struct NodeSetAside {
  static constexpr const char* kind = "node_set_aside";
  static constexpr Keep keep = Keep::newest;
  NodeId node;
  std::string reason;
  Time until;

  MUSTER_FIELDS(node, reason, until)
};

// So many nodes would be set aside that the cause is hardly theirs: none is, until somebody looks.
struct BreakerOpened {
  static constexpr const char* kind = "breaker_opened";
  static constexpr Keep keep = Keep::month;
  std::string target;  // or "ib.phys@lab": a health check drains no more nodes of the target
  std::string reason;
  bool is_check = false;
  Milliseconds window{600'000};  // nodes that the check drained in that time before were sound
  std::vector<NodeId> nodes{};   // these; of a check without a target: all

  std::string keep_key() const { return target; }
  MUSTER_FIELDS(target, reason, is_check, window, nodes)
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

  MUSTER_FIELDS(job, attempt, old_node, new_node, reason, unfitness)
};

// Too few nodes passed: the gang is given back and the job waits (until muster.nodes.wait is over).
struct PlacementAbandoned {
  static constexpr const char* kind = "placement_abandoned";
  JobId job;
  AttemptId attempt;
  std::string reason;
  Time retry_at;  // not placed again before

  MUSTER_FIELDS(job, attempt, reason, retry_at)
};

// Before a job is placed where it has a choice: these are asked at once whether they are there.
struct HostsAsked {
  static constexpr const char* kind = "hosts_asked";
  JobId job;
  std::vector<NodeId> nodes;

  MUSTER_FIELDS(job, nodes)
};

// Nodes of the gang do not answer; whoever waits is told long before they are given up.
struct AnswersAwaited {
  static constexpr const char* kind = "answers_awaited";
  JobId job;
  AttemptId attempt;
  std::vector<NodeId> nodes;
  std::string sentence;

  MUSTER_FIELDS(job, attempt, nodes, sentence)
};

struct StagingBegun {
  static constexpr const char* kind = "staging_begun";
  JobId job;
  AttemptId attempt;

  MUSTER_FIELDS(job, attempt)
};

struct PortsAsked {
  static constexpr const char* kind = "ports_asked";
  JobId job;
  AttemptId attempt;

  MUSTER_FIELDS(job, attempt)
};

struct LaunchBegun {
  static constexpr const char* kind = "launch_begun";
  JobId job;
  AttemptId attempt;
  // Absent: a fresh start. An empty directory: the agent finds the newest seal of that step.
  std::optional<CheckpointRef> resume_from;
  std::string why;               // why this checkpoint, in words
  bool went_back = false;        // a newer one was known; `why` says what became of it
  std::vector<int> processes{};  // ranks of each node, of jobs by GPUs and elastic ones; else empty

  MUSTER_FIELDS(job, attempt, resume_from, why, went_back, processes)
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
  bool in_doubt = false;      // what the blamed node computed may be wrong
  bool lasting = false;       // the job's own doing: no node is blamed, and no other try is made

  MUSTER_FIELDS(job, attempt, reason, sentence, grace, blamed, grace_max, in_doubt, lasting)
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

  MUSTER_FIELDS(job, attempt, node, proof)
};

// A running elastic attempt takes another node: it is checked, given the job's files and holds its
// ports while the others go on. Behind all nodes that the attempt ever had.
struct NodeAdded {
  static constexpr const char* kind = "node_taken";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::string why;

  MUSTER_FIELDS(job, attempt, node, why)
};

// The ranks of a taken node are started, numbered on from all ranks before; they wait to be
// members.
struct JoinBegun {
  static constexpr const char* kind = "join_begun";
  JobId job;
  AttemptId attempt;
  NodeId node;
  int processes = 1;

  MUSTER_FIELDS(job, attempt, node, processes)
};

// From this epoch on these ranks of an elastic attempt train together
// (runtime/protocol/membership.h).
struct MembersChanged {
  static constexpr const char* kind = "members_changed";
  JobId job;
  AttemptId attempt;
  std::int64_t members_epoch = 0;  // 1 at the launch
  std::vector<RankId> ranks;       // as in the file: the first leads
  std::string why;

  MUSTER_FIELDS(job, attempt, members_epoch, ranks, why)
};

// A node of an elastic attempt goes and the others go on. What runs there has `grace` to end by
// itself, without a signal; then SIGKILL and the proof, as at a stop.
struct NodeLeaving {
  static constexpr const char* kind = "node_leaves";
  JobId job;
  AttemptId attempt;
  NodeId node;
  StopReason reason = StopReason::node_lost;
  std::string sentence;
  Milliseconds grace{30000};

  MUSTER_FIELDS(job, attempt, node, reason, sentence, grace)
};

// A node that left is quiet, its outputs are copied or given up: it is nobody's any more.
struct NodeReleased {
  static constexpr const char* kind = "node_released";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::string left_behind;  // outputs that were not copied; empty: none

  MUSTER_FIELDS(job, attempt, node, left_behind)
};

struct CollectionBegun {
  static constexpr const char* kind = "collection_begun";
  JobId job;
  AttemptId attempt;
  std::optional<NodeId> again_from{};  // it failed before; absent: from all nodes

  MUSTER_FIELDS(job, attempt, again_from)
};

// Every node has sent its outputs or is waited for no longer: what is here goes on to stores.
struct DeliveryBegun {
  static constexpr const char* kind = "delivery_begun";
  JobId job;
  AttemptId attempt;

  MUSTER_FIELDS(job, attempt)
};

struct AttemptEnded {
  static constexpr const char* kind = "attempt_ended";
  JobId job;
  AttemptId attempt;
  AttemptCause cause;
  std::optional<CheckpointRef> newest_checkpoint;

  MUSTER_FIELDS(job, attempt, cause, newest_checkpoint)
};

// Another attempt will start, not before `at`, without the excluded nodes.
struct RetryScheduled {
  static constexpr const char* kind = "retry_scheduled";
  JobId job;
  AttemptId attempt;  // the one that ended
  Time at;
  bool reschedule = false;  // charged to `reschedule`, else to `restart`
  std::vector<NodeId> avoid;
  std::string rule;      // which rule or class decided, in words
  bool charged = true;   // false: counts in no budget (preempted, drained)
  bool exclude = false;  // the nodes in `avoid` are never this job's again

  MUSTER_FIELDS(job, attempt, at, reschedule, avoid, rule, charged, exclude)
};

struct JobEnded {
  static constexpr const char* kind = "job_ended";
  JobId job;
  JobEndState state = JobEndState::failed;
  int exit_code = 0;
  std::string reason;  // one sentence

  MUSTER_FIELDS(job, state, exit_code, reason)
};

using Decision =
    std::variant<JobPending, AttemptPlaced, NodeReplaced, PlacementAbandoned, StagingBegun,
                 PortsAsked, LaunchBegun, StopBegun, NodeFenced, CollectionBegun, AttemptEnded,
                 RetryScheduled, JobEnded, SpareDropped, SpareAdded, NodeSuspected, NodeSetAside,
                 BreakerOpened, NodeAdded, JoinBegun, MembersChanged, NodeLeaving, NodeReleased,
                 NodeFaulted, NodeFaultOver, RemedyBegun, RemedyOver, AnswersAwaited, HostsAsked,
                 DeliveryBegun>;

}  // namespace muster
