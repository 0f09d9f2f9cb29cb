// The one command that muster carries from one node to another unless the job opens the door
// (muster.remote_start): the daemon of Open MPI's mpirun, as mpirun would give it to a remote
// shell. It is taken apart here and started without a shell, so that a node cannot have another one
// run anything else. Pure functions.
//
//   [OPAL_PREFIX=DIR ; export OPAL_PREFIX;] [PATH=DIR:$PATH ; export PATH ; and so on]
//   [DIR/]orted {-mca NAME VALUE | --tree-spawn | …}
//
// Open MPI 5 has prted, PRTE_PREFIX and --prtemca in the place of orted, OPAL_PREFIX and -mca.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// What mpirun, and its daemons, call in place of ssh.
inline constexpr const char* mpi_remote_shell = "muster agent mpi-start";
// PRRTE 3 loses the last of several words.
inline constexpr const char* mpi_remote_shell_of_prte = "muster agent mpi-start --";

struct MpiDaemon {
  std::vector<std::string> argv;               // the first is orted or prted, or a path to it
  std::map<std::string, std::string> settings;  // variables that it is given
  std::map<std::string, std::string> in_front;  // a directory in front of what a variable holds
};

// An Error says what is not the daemon's.
Result<MpiDaemon> read_mpi_daemon(const std::string& command);

}  // namespace muster
