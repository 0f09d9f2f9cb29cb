// Where things of an attempt lie on a node, and the token that marks its processes. Pure functions.
//
//   <home>/jobs/<controller>/<node>/<job>/   code-<attempt>/ inputs/ outputs/ logs/ ckpt/
//   <run directory>/attempts/<job>/<attempt>/   start.frame, exits, sessions, members,
//                                               rank-<r>.pipe/.out, vitals/, python/, services/
#pragma once

#include <compare>
#include <string>

#include "launcher/agent/node/run_directory.h"
#include "scheduler/model/ids.h"

namespace muster {

struct AttemptKey {
  JobId job;
  AttemptId attempt;
  auto operator<=>(const AttemptKey&) const = default;
};

// Of a message about an attempt.
template <class Message>
AttemptKey key_of(const Message& message) {
  return {message.job, message.attempt};
}

struct AttemptLayout {
  std::string job;   // the job's directory, outlives attempts
  std::string code;  // the attempt's writable copy: working directory of its ranks
  std::string inputs;
  std::string outputs;
  std::string logs;
  std::string checkpoints;
  std::string spool;        // of the agent: output of ranks, exits
  std::string mpi_scratch;  // Open MPI's session files; short, its sockets live below
  std::string mpi_shared_memory;
  std::string ray_scratch;  // holds Ray's --temp-dir: 41 bytes at most, its sockets live below
};

// Directories of the run directory that wait to be removed.
inline constexpr const char* trash_prefix = "trash.";

inline constexpr const char* token_name = "MUSTER_TOKEN";
inline constexpr const char* socket_name = "MUSTER_AGENT_SOCKET";

// "<controller>.<node>.<job>.<attempt>". Job names hold no dot, so the last two parts are the key.
std::string token_of(const RunDirectory& run, const AttemptKey& key);

// True when `token` was made by any attempt of this controller and node.
bool is_token_of_run(const RunDirectory& run, const std::string& token);

AttemptLayout layout_of(const RunDirectory& run, const AttemptKey& key);

inline std::string spools_root(const RunDirectory& run) {
  return run.path + "/attempts";
}

}  // namespace muster
