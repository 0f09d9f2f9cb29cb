// The communicator over Open MPI; the only file that includes <mpi.h> is its source.
//
// mpirun starts the ranks and names them through the environment. A process that mpirun did not
// start is a run of one rank and never calls MPI. One communicator per process, on the main thread;
// its destructor calls MPI_Finalize.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/communicator/communicator.h"

namespace muster {

// True when this process is one of several that mpirun started (OMPI_COMM_WORLD_SIZE above 1).
bool started_by_mpirun();

// Initializes MPI and returns its world. Throws StartError when the world has another size than
// mpirun announced: every rank would then train alone. Its calls throw std::runtime_error when the
// others do not answer within `peer_timeout`; 0 waits for ever.
std::unique_ptr<Communicator> make_mpi_communicator(std::chrono::seconds peer_timeout);

}  // namespace muster
