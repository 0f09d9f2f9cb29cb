// How an attempt runs under Open MPI's mpirun: the command line, the hosts as mpirun is told them,
// and the file from which the `mpi-rank` wrapper takes what it starts. Pure except for the file
// functions.
//
// Several pretend nodes of one machine work because (a) only node 0 bears the machine's own name,
// any other is taken for remote and gets its own daemon through mpi-start, and (b) each node has
// its own session directory (TMPDIR) and its own directory for shared memory, whose file names Open
// MPI makes from host name and local rank alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"
#include "scheduler/text/fields.h"

namespace muster {

// Names for mpirun, index = node; the first is this machine's own, no other resolves to it.
std::vector<std::string> mpi_host_names(const std::vector<std::string>& hosts,
                                        const std::string& own_host);

// `host_names` in the place of `mpi.hosts`.
std::vector<std::string> mpirun_command(const std::vector<std::string>& host_names,
                                        const MpiLaunch& mpi);

// The same for MPICH and Intel MPI.
std::vector<std::string> hydra_command(const std::vector<std::string>& argv);

// Of mpirun alone, which tells its daemons. Versions 4 and 5 of Open MPI give their parts other
// names; each takes its own (OMPI_MCA_…, PRTE_MCA_…) and is silent about the other's, which it
// would not be on a command line. Names are nodes, whatever a resolver thinks of them.
Environment mpirun_settings(bool one_machine);

// Of mpirun and its daemons on one node: the attempt's own (`base`), with a PATH that leads to
// `program` as `muster`.
Environment mpi_environment(const AttemptLayout& layout, const std::string& program,
                            Environment base);

// What one rank is, for the wrapper: in CBOR, which holds any bytes.
struct MpiRankFile {
  std::string directory;
  std::string output_path;
  std::string exit_log_path;
  std::vector<std::string> argv;
  Environment environment;
  bool in_image = false;  // its variables stay, and its PATH finds the program

  MUSTER_FIELDS(directory, output_path, exit_log_path, argv, environment, in_image)
};

std::string mpi_rank_file_path(const std::string& spool_directory, RankId rank);
Status write_mpi_rank_file(const std::string& path, const MpiRankFile& rank);
std::optional<MpiRankFile> read_mpi_rank_file(const std::string& path);

// Scratch directories of this node, and the link to `program` that mpirun calls.
Status prepare_mpi_scratch(const AttemptLayout& layout, const std::string& program);

// Names the variable in which a process finds its node's spool directory of the attempt.
inline constexpr const char* attempt_directory_name = "MUSTER_ATTEMPT_DIR";
inline constexpr const char* program_name = "MUSTER_PROGRAM";

}  // namespace muster
