// What an agent says to its controller. See agent_message.h for the conversation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/wire/agent_request.h"
#include "scheduler/model/outcome.h"
#include "scheduler/model/record.h"
#include "scheduler/text/fields.h"

namespace muster {

// An exchange that shows how far apart two clocks are: T1 is the controller's, the others the
// node's raw_time(). T4 is when the controller gets it. Absent in what older agents say.
struct ClockStamps {
  std::int64_t sent_us = 0;      // T1
  std::int64_t received_us = 0;  // T2
  std::int64_t replied_us = 0;   // T3

  MUSTER_FIELDS(sent_us, received_us, replied_us)
};

struct Welcome {
  int version = wire_version;
  std::string agent_id;  // new at every start of the agent
  std::string boot_id;
  std::string host_name;
  std::string address;  // as other nodes reach it, as far as the agent knows; may be empty
  int cores = 1;
  std::int64_t memory_bytes = 0;
  int gpus = 0;
  std::string build_id;
  bool holds_attempts = false;
  std::vector<HeldAttempt> held;  // all of them, so that those that are over can be forgotten
  std::int64_t boot_ms = 0;       // when it was sent, on the node's clock since its boot
  std::optional<ClockStamps> clock{};
  bool measures = false;         // knows MeasureNode and CheckNode::measures; agents before did not
  std::vector<JobId> folders{};  // jobs of which more than checkpoints is there; not all if many
  std::optional<Milliseconds> lease{};  // that counts, at the latest from the first renewal

  MUSTER_MESSAGE("welcome", version, agent_id, boot_id, host_name, address, cores, memory_bytes,
                 gpus, build_id, holds_attempts, held, boot_ms, clock, measures, folders, lease)
};

struct Pong {
  std::int64_t boot_ms = 0;  // when it was sent, on the node's clock since its boot
  std::optional<ClockStamps> clock{};

  MUSTER_MESSAGE("pong", boot_ms, clock)
};

struct CheckDone {
  JobId job;
  AttemptId attempt;
  std::vector<CheckFailure> failures;
  std::optional<CheckpointRef> newest_checkpoint;
  std::optional<CheckpointRef> newest_certified{};
  std::optional<CheckpointRef> asked_checkpoint{};
  std::vector<std::string> quarantined{};  // names that incomplete checkpoints have now

  MUSTER_MESSAGE("check_done", job, attempt, failures, newest_checkpoint, newest_certified,
                 asked_checkpoint, quarantined)
};

struct WantBlobs {
  JobId job;
  AttemptId attempt;
  std::vector<std::string> hashes;

  MUSTER_MESSAGE("want_blobs", job, attempt, hashes)
};

struct StageDone {
  JobId job;
  AttemptId attempt;
  std::string error;
  bool lasting = false;  // the error is the job's own doing: it would be the same on any node
  std::vector<std::string> streamed{};  // inputs that are read through a mount
  bool no_registry = false;             // the node cannot reach the image's registry

  MUSTER_MESSAGE("stage_done", job, attempt, error, lasting, streamed, no_registry)
};

// What a node is at while it prepares an attempt, every few seconds as long as anything moves.
struct StageMoved {
  JobId job;
  AttemptId attempt;
  std::string doing;  // "image 1.2 of 7.9 GB", "code/train.py"

  MUSTER_MESSAGE("stage_moved", job, attempt, doing)
};

struct PortsDone {
  JobId job;
  AttemptId attempt;
  std::vector<int> ports;
  std::string error;

  MUSTER_MESSAGE("ports_done", job, attempt, ports, error)
};

struct StartDone {
  JobId job;
  AttemptId attempt;
  std::string error;
  std::string directory{};  // of the job, with outputs/ and logs/ in it
  bool lasting = false;     // the error is the job's own doing: it would be the same on any node

  MUSTER_MESSAGE("start_done", job, attempt, error, directory, lasting)
};

struct MembersSet {
  JobId job;
  AttemptId attempt;
  std::int64_t members_epoch = 0;
  std::string error;  // empty: the file says this epoch, or a newer one

  MUSTER_MESSAGE("members_set", job, attempt, members_epoch, error)
};

// payload: bytes of the rank's output (stdout and stderr as written) at `offset`
struct RankOutput : OutputPlace {
  static constexpr const char* kind = "rank_output";
};

// On the node's raw_time(): it was alive at the one and dead at the other.
struct ExitSpan {
  std::int64_t earliest_us = 0;
  std::int64_t latest_us = 0;

  MUSTER_FIELDS(earliest_us, latest_us)
};

// Sent when reaped and again after every reconnection, until the attempt is forgotten.
struct RankEnded {
  JobId job;
  AttemptId attempt;
  RankId rank;
  ExitStatus status;
  bool asked_to_stop = false;
  std::int64_t age_us = 0;  // since it was reaped, on the node's monotonic clock
  std::vector<std::string> last_lines;
  std::optional<ExitSpan> span;
  ExitEvidence evidence;

  MUSTER_MESSAGE("rank_ended", job, attempt, rank, status, asked_to_stop, age_us, last_lines, span,
                 evidence)
};

// Heartbeat step and new lines of the metrics file, at most twice a second and rank.
struct Progress {
  JobId job;
  AttemptId attempt;
  RankId rank;
  std::optional<std::int64_t> step;
  std::vector<std::string> metrics;         // one JSON object each
  std::optional<CheckpointRef> checkpoint;  // newest sealed one, when it changed
  bool is_read_off = false;  // metrics of files and output of the program, not its own word
  std::string note{};        // what is wrong with those, for people

  MUSTER_MESSAGE("progress", job, attempt, rank, step, metrics, checkpoint, is_read_off, note)
};

// What the ranks of the node do has changed: only those that do something else than was told before
// this connection's Welcome or since.
struct RankActivity {
  JobId job;
  AttemptId attempt;
  std::vector<RankDoing> ranks;
  std::optional<bool> network_moves;  // more than idle talk, on any interface of the node

  MUSTER_MESSAGE("rank_activity", job, attempt, ranks, network_moves)
};

// The answer to LookAtRanks: what /proc and, where there are such, debuggers say of a rank.
struct RankLook {
  RankId rank;
  std::vector<std::string> lines;

  MUSTER_FIELDS(rank, lines)
};

struct RanksLookedAt {
  JobId job;
  AttemptId attempt;
  std::vector<RankLook> ranks;
  std::string storage{};  // why the data that they read do not come; empty: they do

  MUSTER_MESSAGE("ranks_looked_at", job, attempt, ranks, storage)
};

struct AttemptClean {
  JobId job;
  AttemptId attempt;
  std::optional<CheckpointRef> newest_checkpoint;
  std::vector<std::string> unkillable;
  std::optional<CheckpointRef> newest_certified{};

  MUSTER_MESSAGE("attempt_clean", job, attempt, newest_checkpoint, unkillable, newest_certified)
};

// Payload: bytes of the file at `offset`. `entry` names it below the job's run directory.
struct FileData {
  JobId job;
  AttemptId attempt;
  TreeEntry entry;
  std::int64_t offset = 0;
  bool last = false;

  MUSTER_MESSAGE("file_data", job, attempt, entry, offset, last)
};

struct CollectDone {
  JobId job;
  AttemptId attempt;
  std::string error;                    // what could not be sent; empty: nothing
  std::vector<std::string> left_out{};  // what is never sent: sockets, pipes; sentences

  MUSTER_MESSAGE("collect_done", job, attempt, error, left_out)
};

// What the node's health checks believe to be wrong. Said after each greeting and when it changes.
struct FaultsTold {
  std::int64_t now_ms = 0;        // the node's wall clock, which `since` of a fault is of
  std::vector<NodeFault> faults;  // worst first
  bool settled = false;           // NodeFaultsSeen::settled

  MUSTER_MESSAGE("faults_told", now_ms, faults, settled)
};

// The host says that it is about to be taken away, or (`over`) that it stays.
struct NoticeSeen {
  std::optional<Milliseconds> leaves_in;  // absent: not said
  std::string source;
  bool over = false;

  MUSTER_MESSAGE("notice_seen", leaves_in, source, over)
};

// How the command of a RunRemedy ended. Said again when it is asked again.
struct RemedyRun {
  std::string id;
  ExitStatus status;
  std::string error;               // why it was not run, or was killed; empty: it ended
  std::vector<std::string> lines;  // the last that it wrote

  MUSTER_MESSAGE("remedy_run", id, status, error, lines)
};

struct ExecOutput {  // payload: bytes
  std::string id;
  bool is_stderr = false;

  MUSTER_MESSAGE("exec_output", id, is_stderr)
};

struct ExecEnded {
  std::string id;
  ExitStatus status;
  std::string error;

  MUSTER_MESSAGE("exec_ended", id, status, error)
};

struct ExecTaken {  // the command has taken so many bytes of its input more
  std::string id;
  std::int64_t bytes = 0;

  MUSTER_MESSAGE("exec_taken", id, bytes)
};

// mpirun on this node wants a daemon started on another node of the attempt; behind an open door,
// any program on this node a command on any node of it.
struct RemoteStartAsked {
  std::string ticket;
  JobId job;
  AttemptId attempt;
  std::string host;  // as given to the launcher
  std::string command;

  MUSTER_MESSAGE("remote_start_asked", ticket, job, attempt, host, command)
};

using FromAgent = std::variant<Welcome, Pong, CheckDone, WantBlobs, StageDone, PortsDone, StartDone,
                               RankOutput, RankEnded, Progress, AttemptClean, FileData, CollectDone,
                               ExecOutput, ExecEnded, RemoteStartAsked, RemoteStartEnded,
                               NoticeSeen, RankActivity, RanksLookedAt, MembersSet, FaultsTold,
                               RemedyRun, ExecTaken, RemoteOutput, RemoteOutputAck, StageMoved>;

}  // namespace muster
