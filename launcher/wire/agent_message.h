// What a controller and an agent say to each other. A message is one frame (frame.h): a CBOR header
// made from these fields, and raw bytes beside it (`payload`) for the kinds that carry data. Every
// message about an attempt names it; an agent answers repeated requests again and does the work once.
//
// Conversation: Hello -> Welcome, then requests in any order; Ping at least every lease/4.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "scheduler/model/record.h"

namespace muster {

inline constexpr int wire_version = 1;

// ---- controller -> agent ----------------------------------------------------------------------

struct Hello {
  static constexpr const char* kind = "hello";
  int version = wire_version;
  std::string controller_id;
  NodeId node;
  Milliseconds lease{60000};

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("version", self.version);
    visit("controller_id", self.controller_id);
    visit("node", self.node);
    visit("lease", self.lease);
  }
};

struct Ping {
  static constexpr const char* kind = "ping";
  std::int64_t sent_ms = 0;  // controller's wall clock, echoed

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("sent_ms", self.sent_ms);
  }
};

struct CheckNode {
  static constexpr const char* kind = "check_node";
  JobId job;
  AttemptId attempt;
  std::int64_t now_ms = 0;             // controller's wall clock, for the clock check
  std::vector<std::string> programs;   // must be found in PATH: the interpreter of the command
  std::string expected_host;           // host name the cluster file states; empty: any
  std::string checkpoint_path;         // empty: the job's own directory on the node
  std::vector<std::string> skip;       // check ids not to run

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("now_ms", self.now_ms);
    visit("programs", self.programs);
    visit("expected_host", self.expected_host);
    visit("checkpoint_path", self.checkpoint_path);
    visit("skip", self.skip);
  }
};

// One entry of a tree to be placed on a node. Paths are relative, never contain `..`.
struct TreeEntry {
  enum class Kind { directory, file, link };
  Kind entry_kind = Kind::file;
  std::string path;
  int mode = 0644;
  std::int64_t size_bytes = 0;
  std::string hash;    // file: hex content hash, names the blob
  std::string target;  // link

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("entry_kind", self.entry_kind);
    visit("path", self.path);
    visit("mode", self.mode);
    visit("size_bytes", self.size_bytes);
    visit("hash", self.hash);
    visit("target", self.target);
  }
};

// A tree and where it goes below the job's directory on the node: `code`, `inputs/<name>`.
struct Tree {
  std::string place;
  std::vector<TreeEntry> entries;
  bool writable = true;  // code is a fresh writable copy per attempt, inputs are read-only

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("place", self.place);
    visit("entries", self.entries);
    visit("writable", self.writable);
  }
};

// Answered by WantBlobs (until nothing is missing), then NodeStaged's content as StageDone.
struct StageTrees {
  static constexpr const char* kind = "stage_trees";
  JobId job;
  AttemptId attempt;
  std::vector<Tree> trees;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("trees", self.trees);
  }
};

// Payload: bytes of the blob at `offset`.
struct BlobData {
  static constexpr const char* kind = "blob_data";
  std::string hash;
  std::int64_t offset = 0;
  bool last = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("hash", self.hash);
    visit("offset", self.offset);
    visit("last", self.last);
  }
};

struct ReservePorts {
  static constexpr const char* kind = "reserve_ports";
  JobId job;
  AttemptId attempt;
  int count = 1;
  int port_min = 20000;
  int port_max = 29999;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("count", self.count);
    visit("port_min", self.port_min);
    visit("port_max", self.port_max);
  }
};

struct RankLaunch {
  RankId rank;
  int local_rank = 0;
  std::map<std::string, std::string> environment;  // what differs from StartRanks::environment

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("rank", self.rank);
    visit("local_rank", self.local_rank);
    visit("environment", self.environment);
  }
};

// How Open MPI's mpirun is used for this attempt; on node 0 it is started, elsewhere awaited.
struct MpiLaunch {
  std::vector<std::string> hosts;  // in node order, as mpirun is told them
  int processes_per_node = 1;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("hosts", self.hosts);
    visit("processes_per_node", self.processes_per_node);
  }
};

struct StartRanks {
  static constexpr const char* kind = "start_ranks";
  JobId job;
  AttemptId attempt;
  int node_index = 0;
  std::string command;  // for `bash -c`; path placeholders as in JobSpec::command
  std::string resume_argument;
  std::optional<CheckpointRef> resume_from;
  std::string checkpoint_path;  // empty: the job's own directory on the node
  std::map<std::string, std::string> environment;
  std::vector<RankLaunch> ranks;
  std::optional<MpiLaunch> mpi;
  std::map<std::string, InputSpec> inputs;
  std::map<std::string, OutputSpec> outputs;
  std::string shared_outputs;  // directory for outputs that all nodes see; empty: node-local

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("node_index", self.node_index);
    visit("command", self.command);
    visit("resume_argument", self.resume_argument);
    visit("resume_from", self.resume_from);
    visit("checkpoint_path", self.checkpoint_path);
    visit("environment", self.environment);
    visit("ranks", self.ranks);
    visit("mpi", self.mpi);
    visit("inputs", self.inputs);
    visit("outputs", self.outputs);
    visit("shared_outputs", self.shared_outputs);
  }
};

// Signal the ranks, wait `grace`, kill the trees, prove them gone, send the rest of the output, then
// AttemptClean. Also sent when every rank has ended: the proof is wanted all the same.
struct StopAttempt {
  static constexpr const char* kind = "stop_attempt";
  JobId job;
  AttemptId attempt;
  std::string signal = "SIGTERM";
  Milliseconds grace{30000};

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("signal", self.signal);
    visit("grace", self.grace);
  }
};

// Send every file below the job's outputs and logs directories of this node; answered by FileData…,
// then CollectDone.
struct CollectOutputs {
  static constexpr const char* kind = "collect_outputs";
  JobId job;
  AttemptId attempt;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
  }
};

// All bytes of the rank's output before `offset` are safe in the job's log.
struct OutputAck {
  static constexpr const char* kind = "output_ack";
  JobId job;
  AttemptId attempt;
  RankId rank;
  std::int64_t offset = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("rank", self.rank);
    visit("offset", self.offset);
  }
};

// Nothing about this attempt is wanted any more; `job_too`: its whole directory may go.
struct ForgetAttempt {
  static constexpr const char* kind = "forget_attempt";
  JobId job;
  AttemptId attempt;
  bool job_too = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("job_too", self.job_too);
  }
};

// Run a command beside a rank, in its directory and environment. ExecInput feeds its stdin.
struct ExecStart {
  static constexpr const char* kind = "exec_start";
  std::string id;
  JobId job;
  AttemptId attempt;
  RankId rank;
  std::vector<std::string> argv;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("id", self.id);
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("rank", self.rank);
    visit("argv", self.argv);
  }
};

struct ExecInput {  // payload: bytes for stdin; none: end of input
  static constexpr const char* kind = "exec_input";
  std::string id;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("id", self.id);
  }
};

struct ExecStop {  // the asker went away: kill the command
  static constexpr const char* kind = "exec_stop";
  std::string id;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("id", self.id);
  }
};

// Start one of mpirun's daemons here, as if by a remote shell: `sh -c` of the joined words.
struct RemoteStart {
  static constexpr const char* kind = "remote_start";
  std::string ticket;
  JobId job;
  AttemptId attempt;
  std::string command;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("command", self.command);
  }
};

// Relayed to the agent whose mpirun asked.
struct RemoteStartEnded {
  static constexpr const char* kind = "remote_start_ended";
  std::string ticket;
  ExitStatus status;
  std::string error;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
    visit("status", self.status);
    visit("error", self.error);
  }
};

struct Retire {  // exit if no attempt is held
  static constexpr const char* kind = "retire";

  template <class Self, class Visit>
  static void fields(Self&, Visit) {}
};

using ToAgent =
    std::variant<Hello, Ping, CheckNode, StageTrees, BlobData, ReservePorts, StartRanks,
                 StopAttempt, CollectOutputs, OutputAck, ForgetAttempt, ExecStart, ExecInput,
                 ExecStop, RemoteStart, RemoteStartEnded, Retire>;

// ---- agent -> controller ----------------------------------------------------------------------

struct Welcome {
  static constexpr const char* kind = "welcome";
  int version = wire_version;
  std::string agent_id;  // new at every start of the agent
  std::string boot_id;
  std::string host_name;
  std::string address;   // as other nodes reach it, as far as the agent knows; may be empty
  int cores = 1;
  std::int64_t memory_bytes = 0;
  std::string build_id;
  bool holds_attempts = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("version", self.version);
    visit("agent_id", self.agent_id);
    visit("boot_id", self.boot_id);
    visit("host_name", self.host_name);
    visit("address", self.address);
    visit("cores", self.cores);
    visit("memory_bytes", self.memory_bytes);
    visit("build_id", self.build_id);
    visit("holds_attempts", self.holds_attempts);
  }
};

struct Pong {
  static constexpr const char* kind = "pong";
  std::int64_t sent_ms = 0;
  std::int64_t now_ms = 0;  // the node's wall clock

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("sent_ms", self.sent_ms);
    visit("now_ms", self.now_ms);
  }
};

struct CheckDone {
  static constexpr const char* kind = "check_done";
  JobId job;
  AttemptId attempt;
  std::vector<CheckFailure> failures;
  std::optional<CheckpointRef> newest_checkpoint;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("failures", self.failures);
    visit("newest_checkpoint", self.newest_checkpoint);
  }
};

struct WantBlobs {
  static constexpr const char* kind = "want_blobs";
  JobId job;
  AttemptId attempt;
  std::vector<std::string> hashes;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("hashes", self.hashes);
  }
};

struct StageDone {
  static constexpr const char* kind = "stage_done";
  JobId job;
  AttemptId attempt;
  std::string error;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("error", self.error);
  }
};

struct PortsDone {
  static constexpr const char* kind = "ports_done";
  JobId job;
  AttemptId attempt;
  std::vector<int> ports;
  std::string error;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("ports", self.ports);
    visit("error", self.error);
  }
};

struct StartDone {
  static constexpr const char* kind = "start_done";
  JobId job;
  AttemptId attempt;
  std::string error;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("error", self.error);
  }
};

struct RankOutput {  // payload: bytes of the rank's output (stdout and stderr as written) at `offset`
  static constexpr const char* kind = "rank_output";
  JobId job;
  AttemptId attempt;
  RankId rank;
  std::int64_t offset = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("rank", self.rank);
    visit("offset", self.offset);
  }
};

// Sent when reaped and again after every reconnection, until the attempt is forgotten.
struct RankEnded {
  static constexpr const char* kind = "rank_ended";
  JobId job;
  AttemptId attempt;
  RankId rank;
  ExitStatus status;
  bool asked_to_stop = false;
  std::int64_t age_us = 0;  // since it was reaped, on the node's monotonic clock
  std::vector<std::string> last_lines;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("rank", self.rank);
    visit("status", self.status);
    visit("asked_to_stop", self.asked_to_stop);
    visit("age_us", self.age_us);
    visit("last_lines", self.last_lines);
  }
};

// Heartbeat step and new lines of the metrics file, at most twice a second and rank.
struct Progress {
  static constexpr const char* kind = "progress";
  JobId job;
  AttemptId attempt;
  RankId rank;
  std::optional<std::int64_t> step;
  std::vector<std::string> metrics;  // one JSON object each
  std::optional<CheckpointRef> checkpoint;  // newest sealed one, when it changed

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("rank", self.rank);
    visit("step", self.step);
    visit("metrics", self.metrics);
    visit("checkpoint", self.checkpoint);
  }
};

struct AttemptClean {
  static constexpr const char* kind = "attempt_clean";
  JobId job;
  AttemptId attempt;
  std::optional<CheckpointRef> newest_checkpoint;
  std::vector<std::string> unkillable;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("newest_checkpoint", self.newest_checkpoint);
    visit("unkillable", self.unkillable);
  }
};

// Payload: bytes of the file at `offset`. `entry` names it below the job's run directory.
struct FileData {
  static constexpr const char* kind = "file_data";
  JobId job;
  AttemptId attempt;
  TreeEntry entry;
  std::int64_t offset = 0;
  bool last = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("entry", self.entry);
    visit("offset", self.offset);
    visit("last", self.last);
  }
};

struct CollectDone {
  static constexpr const char* kind = "collect_done";
  JobId job;
  AttemptId attempt;
  std::string error;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("error", self.error);
  }
};

struct ExecOutput {  // payload: bytes
  static constexpr const char* kind = "exec_output";
  std::string id;
  bool is_stderr = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("id", self.id);
    visit("is_stderr", self.is_stderr);
  }
};

struct ExecEnded {
  static constexpr const char* kind = "exec_ended";
  std::string id;
  ExitStatus status;
  std::string error;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("id", self.id);
    visit("status", self.status);
    visit("error", self.error);
  }
};

// mpirun on this node wants a daemon started on another node of the attempt.
struct RemoteStartAsked {
  static constexpr const char* kind = "remote_start_asked";
  std::string ticket;
  JobId job;
  AttemptId attempt;
  std::string host;  // as given to mpirun
  std::string command;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
    visit("job", self.job);
    visit("attempt", self.attempt);
    visit("host", self.host);
    visit("command", self.command);
  }
};

using FromAgent =
    std::variant<Welcome, Pong, CheckDone, WantBlobs, StageDone, PortsDone, StartDone, RankOutput,
                 RankEnded, Progress, AttemptClean, FileData, CollectDone, ExecOutput, ExecEnded,
                 RemoteStartAsked, RemoteStartEnded>;

}  // namespace muster
