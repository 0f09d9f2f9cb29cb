// The directory of one agent, `<home>/run/<controller>/<node>/`: socket, lock, log, spools. Mode
// 0700, the user's own, in a home that nobody else may write to. The socket is reached through
// /proc/self/fd, because the path of a Unix socket is limited to 107 bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/os/fd.h"
#include "scheduler/model/ids.h"
#include "scheduler/model/result.h"

namespace muster {

struct RunDirectory {
  std::string home;  // absolute
  std::string controller;
  NodeId node;
  std::string path;
  Fd fd;
  std::string secret;  // nobody else can guess the names made with it, and be there first
  std::string socket_path() const { return path + "/agent.sock"; }
};

// Creates what is missing. `home` may be empty or start with ~/. Refuses what another user owns or
// may write to.
Result<RunDirectory> open_run_directory(const std::string& home, const std::string& controller,
                                        const NodeId& node);

// The lock that makes its holder the agent of the directory; nothing when another process has it.
Result<std::optional<Fd>> lock_run_directory(const RunDirectory& directory);

// The lock, or nothing when an agent answers. Who has the lock and does not answer is about to, or
// to let go: an agent that starts or leaves, a keeper that cleans up, a dying child of a killed
// agent.
Result<std::optional<Fd>> wait_for_agent_lock(const RunDirectory& directory);

// A listening socket `agent.sock`, replacing what a dead agent left.
Result<Fd> listen_in(const RunDirectory& directory);

// A connection to the agent whose socket has this path.
Result<Fd> connect_to_agent(const std::string& socket_path);

// A single path component that cannot leave its directory.
bool is_plain_name(const std::string& name);

// The entry points of `muster agent …`, called by the command line's main. Each returns the exit
// code of the process. An agent is one process per node and controller: it owns the rank processes
// there, keeps their output and answers the controller over a Unix socket; see README.md.

struct AgentOptions {
  std::string home;        // muster's directory on this node, may start with ~/; empty: ~/.muster
  std::string controller;  // id of the controller, names the run directory
  std::string node;        // the node's name in its compute target
  std::string build_id;    // told to the controller in Welcome
};

// `muster agent serve`: returns in the calling process when the agent listens in the background.
int agent_serve(const AgentOptions& options);

// `muster agent attach`: joins stdin and stdout to the serving agent, which it starts when needed.
int agent_attach(const AgentOptions& options);

// `muster agent mpi-start [options] HOST WORDS…`: what mpirun calls in place of ssh.
int agent_mpi_start(const std::vector<std::string>& words);

// `muster agent mpi-run WORDS…`: becomes mpirun with these words, Open MPI's, or with those of
// MPICH and Intel MPI that mean the same, where the node has one of them.
int agent_mpi_run(const std::vector<std::string>& words);

// `muster agent mpi-rank`: what mpirun starts for each rank.
int agent_mpi_rank();

// The programs `ssh` and `pdsh` of a job with muster.remote_start are links to muster, first on the
// PATH of its ranks. Each asks the agent of node 0 to have a command run on nodes of the attempt
// and passes on what it writes. Never ended by a signal that can be caught: DeepSpeed takes that
// for success.
int remote_shell(const std::string& name, const std::vector<std::string>& words);
// The name under which a program was called, where that is one of the links; else empty.
std::string remote_shell_called(const std::string& program);

// `muster agent pkill PATTERN`: SIGTERM to what belongs to this attempt on this node and whose
// command line the pattern meets; 1: there is none.
int agent_pkill(const std::vector<std::string>& words);

}  // namespace muster
