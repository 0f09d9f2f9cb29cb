// The names by which muster and a rank speak to each other through the environment.
//
// The launcher sets these variables for every rank it starts; any program may read them. This
// header is the only place where the names are spelled. It holds names and a plain struct, and
// reads nothing itself: the lookup function is an input, so that tests pass a map.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace muster {

inline constexpr const char* env_job = "MUSTER_JOB";                        // name of the job
inline constexpr const char* env_attempt = "MUSTER_ATTEMPT";                // counts from 0
inline constexpr const char* env_epoch = "MUSTER_EPOCH";                    // fencing epoch, from 1
inline constexpr const char* env_checkpoint_dir = "MUSTER_CHECKPOINT_DIR";  // holds s<step>-g<gen>/
inline constexpr const char* env_resume_from = "MUSTER_RESUME_FROM";        // empty: fresh start
inline constexpr const char* env_checkpoint_every_steps = "MUSTER_CHECKPOINT_EVERY_STEPS";
inline constexpr const char* env_heartbeat = "MUSTER_HEARTBEAT";  // file, see heartbeat.h
inline constexpr const char* env_metrics = "MUSTER_METRICS";      // file, see run_report.h
inline constexpr const char* env_python = "MUSTER_PYTHON";        // directory of muster.py
inline constexpr const char* env_lease = "MUSTER_LEASE";          // file, see lease.h

// Of an elastic job only: the file that says who takes part (membership.h), and the port of this
// rank in it. RANK is then the lasting number of a process, not its place.
inline constexpr const char* env_members = "MUSTER_MEMBERS";
inline constexpr const char* env_member_port = "MUSTER_MEMBER_PORT";

// Set for every rank by launchers of the torch family. Ranks that mpirun did not start find each
// other by them; others check their world against WORLD_SIZE.
inline constexpr const char* env_world_size = "WORLD_SIZE";
inline constexpr const char* env_rank = "RANK";
inline constexpr const char* env_master_address = "MASTER_ADDR";  // of the node of rank 0
inline constexpr const char* env_master_port = "MASTER_PORT";

// What only the ranks of one attempt have: by it they tell each other from everybody else who can
// reach their ports. Never in a command line, a log or a journal.
inline constexpr const char* env_rendezvous_secret = "MUSTER_RENDEZVOUS_SECRET";

// Of a job of type ray that starts its cluster: how many nodes Ray is to count.
inline constexpr const char* env_ray_nodes = "MUSTER_RAY_NODES";

// What a rank finds in its environment. Absent and empty texts are the same: nothing was asked for.
struct RankVariables {
  std::string job;
  std::optional<std::uint64_t> attempt;  // counts from 0
  std::optional<std::uint64_t> epoch;    // MUSTER_EPOCH, else attempt + 1, else none
  std::optional<std::uint64_t> world_size;
  std::optional<std::uint64_t> rank;
  std::uint64_t launched = 0;  // processes that Slurm or an mpirun of any make began; 0: unknown
  std::string master_address;
  std::optional<std::uint64_t> master_port;
  std::string rendezvous_secret;
  std::string members_path;
  std::optional<std::uint64_t> member_port;
  std::string checkpoint_dir;
  std::string resume_from;
  std::string heartbeat_path;
  std::string metrics_path;
};

// Gives the value of a variable, or nullptr when it is not set; getenv has this shape.
using EnvironmentLookup = std::function<const char*(const char* name)>;

// Reads the variables above. A number that is not one is reported in `error` (the variable, its
// value) and leaves its field empty; `error` is untouched otherwise.
RankVariables read_rank_variables(const EnvironmentLookup& lookup, std::string& error);

}  // namespace muster
