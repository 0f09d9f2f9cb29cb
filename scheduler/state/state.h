// The controller's whole knowledge, rebuilt from the journal by `apply` and by nothing else. Holds
// live jobs only: a finished job leaves State with its JobEnded record and lives on in the store.
// Ordered containers, so that iteration is the same on every machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/model/record.h"

namespace muster {

// A rank:    waiting -> running -> exited
struct RankWaiting {};
struct RankRunning {
  Time since;
};
struct RankDone {
  RankExited exit;
};
struct RankGone {  // died unseen with its agent or node
  Time at;
};
using RankState = std::variant<RankWaiting, RankRunning, RankDone, RankGone>;

struct Rank {
  RankId id;
  int node_index = 0;
  int local_rank = 0;
  RankState state;
};

// The agent that was told to start a node's ranks.
enum class AgentChange { none, restarted, rebooted };  // its ranks are gone; with the host
struct LinkLoss {
  Time at;
  std::optional<ClockInterval> silent_since;  // between its last word and then
};
struct StartAgent {
  std::string id;  // empty: it was not known
  std::string boot_id;
  std::optional<LinkLoss> lost{};          // until the same agent answers again
  AgentChange change = AgentChange::none;  // another one has answered
};

// What a node said of its ranks after they were told to stop.
struct NotProven {};
struct Unkillable {  // processes survive SIGKILL
  Time since;
};
struct ProvenClean {};
using StopProof = std::variant<NotProven, Unkillable, ProvenClean>;

// The outputs of its ranks:  NotCollected <-> CollectionFailed, or -> Collected (-> Failed)
struct NotCollected {
  std::optional<Time> seen;  // when they were last seen to arrive
};
struct CollectionFailed {
  std::string error;
  Time at;
};
struct Collected {};
struct Collection {
  std::variant<NotCollected, CollectionFailed, Collected> state;
  int failures = 0;
};

// Of a node that was taken while the others ran: it has a start of its own.
struct Join {
  Time asked_at{};                 // since when its next word is awaited
  std::optional<Time> begun{};     // its ranks may have been started
  std::optional<Time> ready_at{};  // since when they wait to be members
};

// Of a node of an elastic attempt.
struct Membership {
  bool is_member = false;  // its ranks are among Members::ranks
  std::int64_t since = 0;  // epoch; 0: it never was one
  std::int64_t told = 0;   // epoch that its membership file says
  std::string error;       // why the file could not be written
};
struct Departure {
  NodeLeaving why;
  Time at;
  bool is_released = false;  // nobody's any more; stays, because ranks know nodes by their index
};

// A node's part in one attempt: independent facts, as records about them come in any order.
// Questions to it are in lookup.h and membership.h.
struct AttemptNode {
  NodeId id;
  Time joined_at;  // when it was placed, or took another node's place
  std::optional<NodeChecked> checked;
  std::optional<Time> staging_seen;  // when the job's files were last seen to arrive
  std::string preparing;             // what it was last at
  std::optional<NodeStaged> staged;
  std::optional<PortsReserved> ports;
  std::optional<NodeStarted> started;
  std::optional<StartAgent> agent;
  StopProof stopped;
  std::optional<FenceProof> fenced;
  Collection collection;
  std::optional<Join> join;
  Membership membership;
  std::optional<Departure> departure;
};

// An attempt:
//   Gathering -> Staging -> Reserving -> Starting -> Running -> Collecting -> (AttemptEnded)
//       any of them ------------------> Stopping ----------------^
//   Running with every rank exited 0 goes through Stopping too: its nodes prove themselves clean.
struct Gathering {};
struct Staging {
  Time since;
};
struct Reserving {
  Time since;
};
struct Starting {
  Time since;
};
struct Running {
  Time since;
};
struct Stopping {
  Time since;
  StopBegun why;
};
struct Collecting {
  std::optional<StopBegun> why;
  Time since{};
  bool delivers = false;             // what was collected goes to stores
  std::optional<std::string> error;  // it is there (empty), or why not
};
using AttemptPhase =
    std::variant<Gathering, Staging, Reserving, Starting, Running, Stopping, Collecting>;

// Who trains together in an elastic attempt.
struct Members {
  std::int64_t epoch = 0;     // 0: not elastic, or not launched
  std::vector<RankId> ranks;  // the first leads
};

struct TimeSpan {
  Time from;
  Time to;
};

struct Attempt {
  AttemptId id;
  Time placed_at;
  std::vector<TimeSpan> measured;  // when gates measured nodes of the gang; in order, apart
  // Index = node rank. Of an elastic attempt those that have or had ranks come first, in the order
  // in which they got them.
  std::vector<AttemptNode> nodes;
  std::vector<AttemptNode> spares;  // gate-checked and given the job's files; nothing runs there
  std::vector<Rank> ranks;          // index = rank; dealt at placement, by GPUs at the launch
  std::vector<int> processes;       // ranks of each node; empty: as the job file says
  std::optional<CheckpointRef> resume_from;
  std::optional<CheckpointRef> newest_checkpoint;
  std::optional<std::int64_t> last_step;
  std::optional<Time> stepped_at;            // when a later step than before was last seen
  std::optional<Time> saved_at;              // the same of a checkpoint
  std::vector<NodeReplaced> rejected_nodes;  // nodes that failed this attempt's gate, and why
  std::vector<NodeId> spares_dropped;        // not taken as spares again
  std::optional<Time> running_since;         // every rank was started; kept while stopping
  std::optional<Time> stopped_at;            // when its ranks were told to stop
  std::optional<StallSeen> stall;            // what is wrong with the pace, as it was told last
  std::vector<NodeFaulted> faulted;          // nodes of it, since the launch
  Members members;
  bool launched = false;  // StartWork may have been sent: a node must prove itself quiet
  AttemptPhase phase;
  bool has_members() const { return members.epoch > 0; }
};

// A node on which ranks of an attempt ran, or may have run.
struct RanThere {
  NodeId node;
  std::optional<StopReason> left;  // why, of one that went while the others stayed
  Time until;                      // it left, or the attempt ended
};

// What a past attempt leaves behind for the restart policy.
struct PastAttempt {
  AttemptId id;
  Time ended_at;
  AttemptCause cause;
  std::optional<CheckpointRef> newest_checkpoint;
  std::optional<bool> reschedule;  // how its successor was charged; absent: no successor
  Time started_at;
  std::vector<NodeId> nodes;     // index = node rank: a replacement keeps the others' places
  std::vector<NodeId> spares;    // the first to replace one of them
  std::vector<RanThere> ran;     // a node that left and came again is there twice
  bool charged = true;           // false: its successor counts in no budget
  bool saved_last_step = false;  // no step that is known to have been made is lost
  std::optional<std::int64_t> last_step;
  bool advanced = false;  // a newer checkpoint, or a step that no attempt before it had reached
};

// A job:  Queued -> Active -> Backoff -> Active … -> (leaves State)
struct Queued {
  std::string reason;
  std::optional<Time> not_before;  // after an abandoned placement
};
struct Active {
  Attempt attempt;
};
struct Backoff {
  RetryScheduled retry;
};
using JobPhase = std::variant<Queued, Active, Backoff>;

// What it asked before it was placed, and when.
struct AskedHosts {
  Time at;
  std::set<NodeId> nodes;
};

struct Job {
  JobId id;
  std::int64_t order = 0;  // submission order: FIFO inside one priority
  Time submitted_at;
  JobSpec spec;
  ComputeTarget target;
  std::string user;
  std::optional<CancelRequested> cancel;
  std::optional<std::int64_t> resume_step;       // asked for by `resume --from`
  std::optional<std::string> certified_because;  // resumed so that only a certified one will do
  std::int64_t next_attempt = 0;
  std::vector<PastAttempt> past;
  // For healthy nodes (muster.nodes.wait): what counts since the first gang that was given back.
  // The clock stands while the job waits in the queue, behind other jobs or for drained nodes, and
  // while a gate measures.
  std::optional<Time> waiting_since;
  Milliseconds waited_before{0};
  Milliseconds measured_meanwhile{0};  // of the gangs that were given back since
  Milliseconds ran_for{0};             // running time of past attempts (limits.timeout)
  int abandoned = 0;                   // placements given back in a row
  std::string abandoned_for;           // why the latest one was
  int abandoned_alike = 0;             // as many in a row for that reason
  std::optional<AskedHosts> asked;     // before its first placement
  std::set<NodeId> awaited;            // it was told that these do not answer
  std::vector<NodeId> avoid;           // by the latest retry: used only without alternative
  std::set<NodeId> excluded;           // never used again
  std::optional<Time> first_launch;    // of its first attempt, before a resume too
  std::vector<CheckpointRef> found;    // in the first gate, before this job wrote anything
  std::optional<CheckpointRef> newest_checkpoint;  // of all attempts
  std::optional<CheckpointRef> newest_certified;   // as the nodes told when they were clean
  std::vector<Fork> forks;  // launches that went back, by rising epoch and step
  std::string not_uploaded{};  // why outputs of the latest attempt are not in their store
  JobPhase phase;
};

// What is known of a node's agent:  LinkUnknown -> Linked <-> Unlinked
struct LinkUnknown {};
struct Linked {
  LinkUp up;
  Time since{};  // it was greeted
};
struct Unlinked {
  LinkFailure failure;
  Time since;
  std::optional<LinkUp> last;  // the agent that answered before
  Time failed_at;              // the latest failure
  // When this controller first failed to reach it; nothing: it has not tried.
  std::optional<Time> sought_since{};
  Time heard_at{};  // its last word: its agent's lease was renewed no later
};
using LinkState = std::variant<LinkUnknown, Linked, Unlinked>;

// The host will be taken away.
struct LeaveNotice {
  Time since;
  std::optional<Time> leaves_at;
  std::string source;
  std::string boot_id;
  std::string agent_id;  // that said so
};

// muster gives the node nothing new, until then or until somebody undrains it.
struct Cordon {
  Time since;
  Time until;
  std::string reason;
};

// One of its faults keeps new jobs from a node.
struct FaultDrain {
  Time since;
  NodeFault fault;
  std::string reason;
  bool rebooted = false;  // the host, since: somebody has seen to it, and a pass is no mood
};

// A reset or reboot that goes on:  RemedyBegun -> (RemedyEnded) -> RemedyOver
struct RemedyUnderway {
  Time since;
  RemedyBegun what;
  std::optional<RemedyEnded> ended;
};

struct Node {
  NodeId id;
  LinkState link;
  bool drained = false;
  std::string drain_reason;
  std::optional<Time> move_at;  // when what still runs there is moved away
  std::optional<LeaveNotice> notice;
  std::vector<NodeEvidence> evidence;  // jobs that it broke, the newest last
  std::optional<Cordon> set_aside;
  std::optional<Time> cleared_at;  // somebody undrained it: nothing older speaks against it
  std::vector<NodeFault> faults;   // that stand, as its agent said last
  std::map<std::string, Time> faults_told;  // since when it says each of them, by id
  // Since its agent was greeted: those that stand, and the one that it is drained for.
  std::set<std::string> faults_heard;
  bool faults_settled = false;
  std::optional<FaultDrain> fault_drain;
  std::optional<RemedyUnderway> remedy;
  std::vector<RemedyTry> remedies;  // of the last day, the newest last
  bool is_away = false;             // went down for a reboot of muster's and did not come back
  std::optional<JobId> owner;       // whose attempt holds it
  // An attempt that has ended, whose processes are still here and do not die: `owner` stays.
  std::optional<StopBegun> unclean;
};

// Of one target, or of a health check at one: keeps a common fault from setting aside, or draining,
// one node after another.
struct Breaker {
  std::optional<Time> open_since;
  std::string reason;
  bool is_check = false;
  std::optional<Time> reset_at;  // older findings set no node aside
};

struct State {
  std::map<JobId, Job> jobs;
  std::map<NodeId, Node> nodes;
  std::map<std::string, Breaker> breakers;  // by target, or "ib.phys@lab" (lookup.h)
  std::vector<RemedyTaken> remedies;        // of the last weeks, the newest last
  std::int64_t next_order = 0;
};

}  // namespace muster
