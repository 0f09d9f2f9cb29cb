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
#include "scheduler/model/link.h"
#include "scheduler/model/node_fault.h"
#include "scheduler/model/outcome.h"
#include "scheduler/model/remediation.h"
#include "scheduler/text/clock.h"

namespace muster {

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
// with the job's end: made by `resume_request` (scheduler/restart/resume_request.h) from the job's
// records.
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
  std::optional<std::string> certified_because{};  // only a certified checkpoint will do, and why

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
    visit("certified_because", self.certified_because);
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
  int gpus = 0;                      // that the driver has there
  std::string first_contact{};       // with its host key, a sentence; empty: it was known

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
    visit("gpus", self.gpus);
    visit("first_contact", self.first_contact);
  }
};

struct LinkDown {
  static constexpr const char* kind = "link_down";
  NodeId node;
  LinkFailure failure;
  std::optional<ClockInterval> silent_since{};  // between its last word and the notice of its loss
  bool is_untried = false;  // the controller has just begun: it has not looked for the node

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("failure", self.failure);
    visit("silent_since", self.silent_since);
    visit("is_untried", self.is_untried);
  }
};

struct NodeChecked {
  static constexpr const char* kind = "node_checked";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::vector<CheckFailure> failures;             // empty: healthy
  std::optional<CheckpointRef> newest_checkpoint;  // of this job on this node
  std::optional<CheckpointRef> newest_certified{};
  std::optional<CheckpointRef> asked_checkpoint{};  // of the step that `resume --from` names

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("failures", self.failures);
    visit("newest_checkpoint", self.newest_checkpoint);
    visit("newest_certified", self.newest_certified);
    visit("asked_checkpoint", self.asked_checkpoint);
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
  std::string error;     // empty: done
  bool lasting = false;  // the job's own doing: no node and no later try would do better

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("error", self.error);
    visit("lasting", self.lasting);
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
  bool lasting = false;     // as of NodeStaged

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("error", self.error);
    visit("directory", self.directory);
    visit("lasting", self.lasting);
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
  std::string boot_id{};   // of the host then: after a reboot it is over
  std::string agent_id{};  // that said so: the next one has to say it again

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("leaves_in", self.leaves_in);
    visit("source", self.source);
    visit("over", self.over);
    visit("boot_id", self.boot_id);
    visit("agent_id", self.agent_id);
  }
};

// Somebody has looked at why so many nodes were set aside or drained: older findings count no more.
struct BreakerReset {
  static constexpr const char* kind = "breaker_reset";
  std::string target;  // or a check's breaker; "ib.phys": that of each target

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
  std::optional<CheckpointRef> newest_certified{};

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("newest_checkpoint", self.newest_checkpoint);
    visit("unkillable", self.unkillable);
    visit("newest_certified", self.newest_certified);
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

// Every rank of a node that joins has written its heartbeat: it can be made a member.
struct NodeReady {
  static constexpr const char* kind = "node_ready";
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

// The node's membership file says this epoch, or (error) could not be written.
struct MembersTold {
  static constexpr const char* kind = "members_told";
  JobId job;
  AttemptId attempt;
  NodeId node;
  std::int64_t members_epoch = 0;
  std::string error;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node", self.node);
    visit("members_epoch", self.members_epoch);
    visit("error", self.error);
  }
};

using Observation =
    std::variant<JobSubmitted, CancelRequested, ResumeRequested, NodeDrainSet, LinkUp, LinkDown,
                 NodeChecked, StagingSeen, NodeStaged, PortsReserved, NodeStarted, RankExited,
                 ProgressSeen, NodeClean, CollectionSeen, OutputsCollected, FirstOutputSeen,
                 StallSeen, NodeNotice, BreakerReset, NodeReady, MembersTold, NodeFaultsSeen,
                 RemedyEnded>;

}  // namespace muster
