#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "runtime/communicator/communicator.h"
#include "runtime/communicator/mesh/mesh.h"
#include "runtime/estimate/estimate.h"
#include "runtime/protocol/environment.h"
#include "runtime/protocol/start_error.h"
#include "runtime/tokenize/tokenize.h"
#include "runtime/train/elastic/run.h"
#include "runtime/train/run.h"
#include "runtime/train/step/options.h"
#include "runtime/train/step/stop_request.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

constexpr int exit_internal_error = 1;

RankVariables own_variables(std::string& complaint) {
  return read_rank_variables([](const char* name) { return std::getenv(name); }, complaint);
}

std::unique_ptr<Communicator> join_ranks(const TrainOptions& options) {
  const std::chrono::seconds peer_timeout(options.peer_timeout_s);
  const bool by_mpi = options.communicator == CommunicatorKind::automatic
                          ? started_by_mpirun()
                          : options.communicator == CommunicatorKind::mpi;
  if (by_mpi) return make_mpi_communicator(peer_timeout);
  std::string complaint;
  const auto start = mesh_start(own_variables(complaint), peer_timeout);
  if (!start) return make_single_communicator();  // whose only rank complains itself
  if (!complaint.empty()) throw StartError(complaint);
  return make_mesh_communicator(start->seat, start->place, {peer_timeout});
}

// One rank's complaint is that of all: none of them waits for the others.
RankVariables agreed_variables(Communicator& ranks) {
  return on_all_ranks(ranks, [] {
    std::string complaint;
    RankVariables variables = own_variables(complaint);
    if (!complaint.empty()) throw StartError(complaint);
    return variables;
  });
}

// Without a lease that can be read the run is fenced by its generation alone.
void watch_lease(std::optional<EndWithLease>& watch) {
  const char* path = std::getenv(env_lease);
  if (path == nullptr || *path == '\0') return;
  if (hold_lease(path)) {
    watch.emplace();
  } else {
    std::fprintf(stderr, "muster-train: warning: %s: there is no lease at %s\n", env_lease,
                 without_controls(path).c_str());
  }
}

int complain(const StartError& error) {
  std::fprintf(stderr, "muster-train: %s\n", without_controls(error.what()).c_str());
  return exit_cannot_start;
}

// Ends the run of all ranks.
int abort_all(const std::exception& error, Communicator& ranks) {
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  std::fprintf(stderr, "muster-train: rank %zu: %s\n", ranks.rank(),
               is_memory ? "not enough memory for this model: lower --micro-batch, --context, "
                           "--width or --layers"
                         : without_controls(error.what()).c_str());
  ranks.abort(exit_internal_error);
  return exit_internal_error;
}

// A StartError is known to all ranks alike; one of them prints it.
int train(const TrainOptions& options, Communicator& ranks,
          std::optional<EndOnSigterm>& before_steps) {
  try {
    return run_training(options, agreed_variables(ranks), ranks, [&] { before_steps.reset(); });
  } catch (const StartError& error) {
    // A launcher takes the first that ends for the cause: that is the one that says why.
    if (ranks.rank() == 0) return complain(error);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return exit_cannot_start;
  } catch (const std::exception& error) {
    return abort_all(error, ranks);
  }
}

int train_elastically(const TrainOptions& options, std::optional<EndOnSigterm>& before_steps) {
  std::string complaint;
  const RankVariables variables = own_variables(complaint);
  if (!complaint.empty()) throw StartError(complaint);
  try {
    return run_elastic_training(options, variables, [&] { before_steps.reset(); });
  } catch (const StartError&) {
    throw;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "muster-train: rank %llu: %s\n",
                 static_cast<unsigned long long>(variables.rank.value_or(0)),
                 without_controls(error.what()).c_str());
    return exit_internal_error;
  }
}

// Of a run's options it obeys those about communication.
int measure_allreduce(int argc, char** argv) {
  const auto parsed = parse_train_options(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const auto ranks = join_ranks(std::get<TrainOptions>(parsed));
    try {
      probe_allreduce(*ranks);
      return 0;
    } catch (const std::exception& error) {
      return abort_all(error, *ranks);
    }
  } catch (const StartError& error) {
    return complain(error);
  }
}

// Threads of libgomp that wait spin for milliseconds, which on a core that others need is time
// taken from what they wait for. How long is read before main: so the program begins once more.
void begin_without_spinning(int argc, char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  const bool has_threads = std::any_of(argv + 1, argv + argc, [](const char* word) {
    return std::strncmp(word, "--threads", std::strlen("--threads")) == 0;
  });
  if (!has_threads || ::setenv("GOMP_SPINCOUNT", "1000", 1) != 0) return;
  ::execv("/proc/self/exe", argv);  // where it cannot, the threads spin
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "tokenize") == 0) {
    return muster::run_tokenize_command(argc - 1, argv + 1);
  }
  if (argc > 1 && std::strcmp(argv[1], "estimate") == 0) {
    return muster::run_estimate_command(argc - 1, argv + 1);
  }
  if (argc > 1 && std::strcmp(argv[1], "probe-allreduce") == 0) {
    return muster::measure_allreduce(argc - 1, argv + 1);
  }
  muster::begin_without_spinning(argc, argv);
  const auto parsed = muster::parse_train_options(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& options = std::get<muster::TrainOptions>(parsed);
  muster::hold_back_sigterm();
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the output that went away is no reason to die
  std::optional<muster::EndWithLease> lease;
  muster::watch_lease(lease);
  try {
    std::optional<muster::EndOnSigterm> before_steps(std::in_place);
    if (std::getenv(muster::env_members) != nullptr) {
      return muster::train_elastically(options, before_steps);
    }
    const auto ranks = muster::join_ranks(options);
    return muster::train(options, *ranks, before_steps);
  } catch (const muster::StartError& error) {
    return muster::complain(error);
  }
}
