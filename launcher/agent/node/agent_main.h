// The entry points of `muster agent …`, called by the command line's main. Each returns the exit
// code of the process. An agent is one process per node and controller: it owns the rank processes
// there, keeps their output and answers the controller over a Unix socket; see README.md.
#pragma once

#include <string>
#include <vector>

namespace muster {

struct AgentOptions {
  std::string home;        // muster's directory on this node, may start with ~/; empty: ~/.muster
  std::string controller;  // id of the controller, names the run directory
  std::string node;        // the node's name in its compute target
  int ready_fd = -1;       // one byte is written here when the agent listens; below 0: none
  std::string build_id;    // told to the controller in Welcome
};

// `muster agent serve`: returns in the calling process when the agent listens in the background.
int agent_serve(const AgentOptions& options);

// `muster agent attach`: joins stdin and stdout to the serving agent, which it starts when needed.
int agent_attach(const AgentOptions& options);

// `muster agent mpi-start [options] HOST WORDS…`: what mpirun calls in place of ssh.
int agent_mpi_start(const std::vector<std::string>& words);

// `muster agent mpi-rank`: what mpirun starts for each rank.
int agent_mpi_rank();

}  // namespace muster
