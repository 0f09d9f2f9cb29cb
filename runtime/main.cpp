#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "runtime/communicator/mpi.h"
#include "runtime/protocol/environment.h"
#include "runtime/train/options.h"
#include "runtime/train/run.h"
#include "runtime/train/start_error.h"
#include "runtime/train/stop_request.h"

namespace muster {
namespace {

constexpr int exit_internal_error = 1;

std::unique_ptr<Communicator> join_ranks() {
  return started_by_mpirun() ? make_mpi_communicator() : make_single_communicator();
}

// A StartError is known to all ranks alike; one of them prints it.
int train(const TrainOptions& options, Communicator& ranks) {
  try {
    std::string complaint;
    const RankVariables variables =
        read_rank_variables([](const char* name) { return std::getenv(name); }, complaint);
    if (!complaint.empty()) throw StartError(complaint);
    return run_training(options, variables, ranks);
  } catch (const StartError& error) {
    if (ranks.rank() == 0) std::fprintf(stderr, "muster-train: %s\n", error.what());
    return exit_cannot_start;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "muster-train: rank %zu: %s\n", ranks.rank(), error.what());
    ranks.abort(exit_internal_error);
    return exit_internal_error;
  }
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  const auto parsed = muster::parse_train_options(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& options = std::get<muster::TrainOptions>(parsed);
  muster::hold_back_sigterm();
  try {
    const auto ranks = muster::join_ranks();
    return muster::train(options, *ranks);
  } catch (const muster::StartError& error) {
    std::fprintf(stderr, "muster-train: %s\n", error.what());
    return muster::exit_cannot_start;
  }
}
