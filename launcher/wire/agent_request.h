// What the controller says to an agent. Requests are idempotent: an agent that has done the work
// says so again. See agent_message.h for the conversation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/model/record.h"
#include "scheduler/model/retention.h"
#include "scheduler/text/fields.h"

namespace muster {

// A directory tree as data: what staging sends to a node and what comes back as outputs.

// One entry of a tree to be placed on a node. Paths are relative, never contain `..`.
struct TreeEntry {
  enum class Kind { directory, file, link };
  Kind entry_kind = Kind::file;
  std::string path;
  int mode = 0644;
  std::int64_t size_bytes = 0;
  std::string hash;    // file: hex content hash, names the blob
  std::string target;  // link

  MUSTER_FIELDS(entry_kind, path, mode, size_bytes, hash, target)
};

// A tree and where it goes below the job's directory on the node: `code`, `inputs/<name>`.
struct Tree {
  std::string place;
  std::vector<TreeEntry> entries;
  bool writable = true;  // code is a fresh writable copy per attempt, inputs are read-only

  MUSTER_FIELDS(place, entries, writable)
};

// An attempt whose files are on the node: it runs there, or its output waits to be forgotten.
struct HeldAttempt {
  JobId job;
  AttemptId attempt;

  MUSTER_FIELDS(job, attempt)
};

// In a message: its kind, and its fields as MUSTER_FIELDS takes them.
#define MUSTER_MESSAGE(name, ...)           \
  static constexpr const char* kind = name; \
  MUSTER_FIELDS(__VA_ARGS__)

// A message that says all by its kind.
struct NoFields {
  template <class Self, class Visit>
  static void fields(Self&, Visit) {}
};

inline constexpr int wire_version = 1;

struct Hello {
  int version = wire_version;
  std::string controller_id;
  NodeId node;
  Milliseconds lease{60000};
  std::optional<std::int64_t> sent_us;    // controller's raw_time(), echoed
  std::string notice_file{};              // ComputeTarget::notice_file
  std::optional<HealthProfile> health{};  // ComputeTarget::health
  RetentionLimits retention{};
  // In place of `lease`, for an agent that says at Welcome which one it holds; older ones do not.
  std::optional<Milliseconds> near_lease{};

  MUSTER_MESSAGE("hello", retention, version, controller_id, node, lease, sent_us, notice_file,
                 health, near_lease)
};

// The lease counts from `heard_ms`: when the agent sent the newest word that the controller has got
// from it. Absent until the controller's journal knows that the agent answers. A Ping itself renews
// nothing: the network may deliver it long after the controller gave the node up.
struct Ping {
  std::optional<std::int64_t> sent_us;     // controller's raw_time(), echoed
  std::optional<std::int64_t> heard_ms{};  // Welcome::boot_ms or Pong::boot_ms, given back

  MUSTER_MESSAGE("ping", sent_us, heard_ms)
};

// The job's settings `health.*`, as far as a node's agent has to know them.
struct JobHealth {
  HealthLevel failure = HealthLevel::full;  // off: nothing is read because a rank failed
  bool run = true;                          // the node is read while the ranks run
  std::vector<std::string> skip;            // check ids: failures of these say nothing
  std::vector<std::string> only;            // at the gate these alone; empty: all
  friend bool operator==(const JobHealth&, const JobHealth&) = default;

  MUSTER_FIELDS(failure, run, skip, only)
};

// Where a program may save in a format of its own, beside the checkpoint directory and the job's
// own outputs on the node, and what is to be known to tell whether it was done.
struct ForeignSaves {
  std::string format = "auto";             // checkpoint.format
  std::string marker{};                    // checkpoint.marker
  int world = 0;                           // ranks that may have written; 0: not known
  std::vector<std::string> directories{};  // absolute
  // Incomplete ones that were last written between these times (ms since 1970) are renamed: while
  // attempts of the job ran, and none since.
  std::optional<std::int64_t> quarantine_since{};
  std::int64_t quarantine_until = 0;

  MUSTER_FIELDS(format, marker, world, directories, quarantine_since, quarantine_until)
};

// The node is to be judged by another profile than the greeting's: ComputeTarget::health. Answered
// by FaultsTold.
struct WatchHealth {
  std::optional<HealthProfile> health;

  MUSTER_MESSAGE("watch_health", health)
};

struct CheckNode {
  JobId job;
  AttemptId attempt;
  std::int64_t now_ms = 0;            // controller's wall clock, for the clock check
  std::vector<std::string> programs;  // must be found in PATH: the interpreter of the command
  std::string expected_host;          // host name the cluster file states; empty: any
  std::string checkpoint_path;        // empty: the job's own directory on the node
  std::vector<std::string> skip;      // check ids that refuse nothing
  bool with_health = false;           // health checks are part of the gate
  bool measures = false;              // and, when all have passed, what the profile has floors for
  std::optional<Milliseconds> failed_ago{};  // the job, here: figures from before are not believed
  JobHealth health{};                        // for all checks until another job's come
  std::optional<std::int64_t> asked_step{};  // whose checkpoint the job shall go back to
  ForeignSaves saves{};

  MUSTER_MESSAGE("check_node", job, attempt, now_ms, programs, expected_host, checkpoint_path, skip,
                 with_health, measures, failed_ago, health, asked_step, saves)
};

// The image that a job's ranks run in. What is at `place` below the job's directory, where the
// trees have such a one, is it; else the node pulls it.
struct ImagePull {
  static constexpr const char* place = "image";
  std::string name;    // in full
  std::string digest;  // sha256:<hex>; empty: what the node holds under the name is good
  std::int64_t bytes = 0;
  std::string login;      // a registry's, as in auth.json; a secret; empty: none
  std::string runtime{};  // EnvironmentSpec::runtime

  MUSTER_FIELDS(name, digest, bytes, login, runtime)
};

// Data of a store that an input names. The manifest, a list of its files, is a blob that comes with
// the trees; the node fetches what it lists into its cache.
struct StagedData {
  std::string input;
  std::string manifest;      // SHA-256 of the list
  std::string config;        // of rclone, with credentials: never journaled, logged or written
  std::string source;        // what it lists lies below, as rclone names it: "store:container/path"
  std::string cache{};       // directory; empty: the node's own
  std::string size = "80%";  // that the cache may take: of its file system, or bytes
  bool is_file = false;      // the input is the one file listed
  std::string how = "stage";  // or "stream"; "auto": staged where they are smaller than
  std::string stage_below{};  // this share of the cache
  std::string mount_cache{};  // DATASET_MOUNT_CACHE_SIZE; empty: the same share

  MUSTER_FIELDS(input, manifest, config, source, cache, size, is_file, how, stage_below,
                mount_cache)
};

// Answered by WantBlobs (until nothing is missing), then NodeStaged's content as StageDone.
struct StageTrees {
  JobId job;
  AttemptId attempt;
  std::vector<Tree> trees;
  std::optional<ImagePull> image{};
  std::vector<StagedData> data{};

  MUSTER_MESSAGE("stage_trees", job, attempt, trees, image, data)
};

// Payload: bytes of the blob at `offset`.
struct BlobData {
  std::string hash;
  std::int64_t offset = 0;
  bool last = false;

  MUSTER_MESSAGE("blob_data", hash, offset, last)
};

struct ReservePorts {
  JobId job;
  AttemptId attempt;
  int count = 1;
  int port_min = 20000;
  int port_max = 29999;

  MUSTER_MESSAGE("reserve_ports", job, attempt, count, port_min, port_max)
};

struct RankLaunch {
  RankId rank;
  int local_rank = 0;
  std::map<std::string, std::string> environment;  // what differs from StartRanks::environment

  MUSTER_FIELDS(rank, local_rank, environment)
};

// How mpirun is used for this attempt; on node 0 it is started, elsewhere awaited.
struct MpiLaunch {
  std::vector<std::string> hosts;  // in node order, as mpirun is told them
  int processes_per_node = 1;
  std::vector<int> processes{};  // of each node, where GPUs are counted; else empty
  bool one_machine = false;      // all nodes are pretend ones of the same machine
  std::vector<std::string> arguments{};  // more of them, as the job gives them

  MUSTER_FIELDS(hosts, processes_per_node, processes, one_machine, arguments)
};

// A job whose node 0 may start commands on its nodes, as other launchers do by ssh or pdsh.
struct RemoteDoor {
  std::vector<std::string> hosts;      // nodes of the attempt, in order
  std::vector<std::string> addresses;  // of each, on the job's network
  std::vector<int> slots;              // processes that a launcher is to start on each

  MUSTER_FIELDS(hosts, addresses, slots)
};

struct StartRanks {
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
  bool elastic = false;        // ranks get MUSTER_MEMBERS and MUSTER_MEMBER_PORT
  std::string members{};       // first content of the membership file; empty: not a member yet
  JobHealth health{};
  ForeignSaves saves{};
  std::optional<RemoteDoor> door{};  // absent: shut, but for mpirun's daemon
  std::vector<std::string> metrics_regex{};  // patterns and presets for what ranks print
  bool metrics_mlflow = false;               // they get a database of MLflow's on the node
  std::map<std::string, ServiceSpec> services{};  // that run on this node
  std::string image{};     // empty: on the host itself
  std::string shm_size{};  // of the image's container
  std::string runtime{};   // EnvironmentSpec::runtime

  MUSTER_MESSAGE("start_ranks", job, attempt, node_index, command, resume_argument, resume_from,
                 checkpoint_path, environment, ranks, mpi, inputs, outputs, shared_outputs, elastic,
                 members, health, saves, door, metrics_regex, metrics_mlflow, services, image,
                 shm_size, runtime)
};

// Replace the attempt's membership file, unless it has this epoch or a newer one; answered by
// MembersSet.
struct SetMembers {
  JobId job;
  AttemptId attempt;
  std::int64_t members_epoch = 0;
  std::string content;  // runtime/protocol/membership.h

  MUSTER_MESSAGE("set_members", job, attempt, members_epoch, content)
};

// Signal the ranks (an empty signal: none, they are to end by themselves), wait `grace`, kill the
// trees, prove them gone, send the rest of the output, then AttemptClean. Also sent when every rank
// has ended: the proof is wanted all the same.
struct StopAttempt {
  JobId job;
  AttemptId attempt;
  std::string signal = "SIGTERM";
  Milliseconds grace{30000};
  Milliseconds grace_max{0};  // the grace grows this far while the job's checkpoint does

  MUSTER_MESSAGE("stop_attempt", job, attempt, signal, grace, grace_max)
};

// A closer look at ranks that seem to hang; answered by RanksLookedAt. Changes nothing about them.
struct LookAtRanks {
  JobId job;
  AttemptId attempt;
  std::vector<RankId> ranks;
  std::optional<RankId> suspect;  // the one of them that a debugger may hold up for a moment

  MUSTER_MESSAGE("look_at_ranks", job, attempt, ranks, suspect)
};

// Send every file below the job's outputs and logs directories of this node; answered by FileData…,
// then CollectDone.
struct CollectOutputs : HeldAttempt {
  static constexpr const char* kind = "collect_outputs";
};

// A place in what a rank writes.
struct OutputPlace {
  JobId job;
  AttemptId attempt;
  RankId rank;
  std::int64_t offset = 0;

  MUSTER_FIELDS(job, attempt, rank, offset)
};

// All bytes of the rank's output before `offset` are safe in the job's log.
struct OutputAck : OutputPlace {
  static constexpr const char* kind = "output_ack";
};

// Nothing about this attempt is wanted any more.
struct ForgetAttempt : HeldAttempt {
  static constexpr const char* kind = "forget_attempt";
};

// The job has ended: what of its directory can be brought again may go. `outputs_too`: what its
// ranks wrote as well, for the controller has it. Checkpoints stay in any case.
struct ForgetJob {
  JobId job;
  bool outputs_too = false;

  MUSTER_MESSAGE("forget_job", job, outputs_too)
};

// The terminal at which the person sits.
struct TerminalShape {
  std::string name;  // $TERM
  int rows = 0;      // 0: not known
  int columns = 0;

  MUSTER_FIELDS(name, rows, columns)
};

// For the sshd that serves one connection: made for the job on its owner's machine.
struct SshKeys {
  std::string host_key;        // private
  std::string authorized_key;  // public

  MUSTER_FIELDS(host_key, authorized_key)
};

// What a session has at the node's end, where that is more than a command with three pipes. Each
// side sends at most `window` bytes that the other has not taken yet (ExecControl, ExecTaken). A
// connection's end of output is told by an empty ExecOutput.
struct ExecChannel {
  std::int64_t window = 0;
  std::optional<TerminalShape> terminal{};  // no command: the account's shell
  std::string socket{};                     // a port of 127.0.0.1, or a path in the job's directory
  std::optional<SshKeys> ssh{};             // in place of a command

  MUSTER_FIELDS(window, terminal, socket, ssh)
};

// Run a command beside a rank, in its directory and environment. ExecInput feeds its stdin.
struct ExecStart {
  std::string id;
  JobId job;
  AttemptId attempt;
  RankId rank;
  std::vector<std::string> argv;
  std::optional<ExecChannel> channel{};

  MUSTER_MESSAGE("exec_start", id, job, attempt, rank, argv, channel)
};

struct ExecInput {  // payload: bytes for stdin; none: end of input
  std::string id;

  MUSTER_MESSAGE("exec_input", id)
};

// The asker has taken so many bytes more, and its terminal is now so large (0: as it was).
struct ExecControl {
  std::string id;
  std::int64_t taken = 0;
  int rows = 0;
  int columns = 0;

  MUSTER_MESSAGE("exec_control", id, taken, rows, columns)
};

struct ExecStop {  // the asker went away: kill the command
  std::string id;

  MUSTER_MESSAGE("exec_stop", id)
};

// Start this here, as a remote shell would: one of mpirun's daemons or, where the door of the job
// is open, any command. The ticket ends with a dot and the number that the asker gave it.
struct RemoteStart {
  std::string ticket;
  JobId job;
  AttemptId attempt;
  std::string command;

  MUSTER_MESSAGE("remote_start", ticket, job, attempt, command)
};

// Relayed to the agent whose mpirun asked.
struct RemoteStartEnded {
  std::string ticket;
  ExitStatus status;
  std::string error;

  MUSTER_MESSAGE("remote_start_ended", ticket, status, error)
};

// A place in what a command behind the door writes.
struct RemotePlace {
  JobId job;
  AttemptId attempt;
  std::int64_t number = 0;  // of the ticket
  std::int64_t offset = 0;
  std::string node{};  // where it runs; set on the way

  MUSTER_FIELDS(job, attempt, number, offset, node)
};

// From the node where it runs, and on to the one that asked.
struct RemoteOutput : RemotePlace {  // payload: bytes
  static constexpr const char* kind = "remote_output";
};

// The other way: everything before `offset` has been passed to who asked.
struct RemoteOutputAck : RemotePlace {
  static constexpr const char* kind = "remote_output_ack";
};

// A person says that the node is sound: faults believed until then are over, as if repaired.
struct FaultsFixed {
  std::vector<std::string> ids;  // NodeFault::id

  MUSTER_MESSAGE("faults_mended", ids)
};

// How a person wants a node's health looked at.
struct HealthWanted {
  std::string phase{};                // of checks; empty: the usual one
  std::vector<std::string> checks{};  // patterns; none: all
  bool quick = false;                 // one look
  bool is_idle = false;               // a person says that nothing runs there
  std::string holdings{};             // what a job needs: answered instead (cli/image/needs.h)

  MUSTER_FIELDS(phase, checks, quick, is_idle, holdings)
};

// Run `muster health run -o json`: ExecOutput and ExecEnded of this id, and ExecStop from the
// controller. Where ranks run, or a job is about to, only what may run beside them is done. A
// start of ranks ends what would be more.
struct LookAtHealth {
  std::string id;
  std::string profile{};  // a file of health profiles; empty: by what the node has
  HealthWanted wanted{};
  bool is_held = false;  // a job has the node

  MUSTER_MESSAGE("look_at_health", id, profile, wanted, is_held)
};

// Measure the node, which has to be idle: `muster health active -o json WORDS…`, or a probe, as
// `muster agent probe WORDS…`. ExecOutput and ExecEnded of this id, and ExecStop from the
// controller. Refused where ranks run or another measurement does, unless both are probes with the
// same token; a start of ranks ends it.
struct MeasureNode {
  std::string id;
  bool is_probe = false;
  std::vector<std::string> words{};
  std::string profile{};  // not of a probe: as LookAtHealth's
  std::string token{};    // of a probe, for its environment: what all of one run know

  MUSTER_MESSAGE("measure_node", id, is_probe, words, profile, token)
};

// Run this command of the site, once for the id however often it is asked; answered by RemedyRun.
// Refused where ranks run, or their processes are left.
struct RunRemedy {
  std::string id;
  RemedyStep step = RemedyStep::reset;
  std::string device;  // that is reset; empty: the node
  std::vector<std::string> argv;
  Milliseconds limit{0};  // then it is killed

  MUSTER_MESSAGE("run_remedy", id, step, device, argv, limit)
};

struct Retire : NoFields {  // exit if no attempt is held
  static constexpr const char* kind = "retire";
};

using ToAgent =
    std::variant<Hello, Ping, CheckNode, StageTrees, BlobData, ReservePorts, StartRanks,
                 StopAttempt, CollectOutputs, OutputAck, ForgetAttempt, ExecStart, ExecInput,
                 ExecStop, RemoteStart, RemoteStartEnded, Retire, LookAtRanks, SetMembers,
                 FaultsFixed, WatchHealth, LookAtHealth, MeasureNode, RunRemedy, ForgetJob,
                 ExecControl, RemoteOutput, RemoteOutputAck>;

}  // namespace muster
