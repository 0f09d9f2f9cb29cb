// What an exchange between two ranks takes, by Open MPI and by muster's own communicator:
//
//   mpirun -n 2 communicator_bound [--rounds N]
//
// One round moves a gradient of P bytes as a training step does: an all-to-all of halves, then an
// all-gather of halves. Both kinds take turns in the same processes; printed are milliseconds per
// round, the median, by the size of P in MB. Reading this as a test makes no sense: nothing is
// checked.

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "runtime/communicator/mesh/mesh.h"

using namespace muster;

namespace {

double exchange_ms(Communicator& ranks, std::vector<float>& gradient, std::vector<float>& received,
                   std::vector<float>& weights) {
  const std::size_t size = ranks.size();
  std::vector<ElementRange> owned;
  std::vector<ElementRange> in;
  for (std::size_t r = 0; r < size; ++r) {
    owned.push_back({gradient.size() * r / size, gradient.size() * (r + 1) / size});
  }
  const std::uint64_t own = owned[ranks.rank()].size();
  for (std::size_t r = 0; r < size; ++r) in.push_back({r * own, (r + 1) * own});
  ranks.gather_texts("");
  const auto begin = std::chrono::steady_clock::now();
  ranks.all_to_all(gradient, owned, received, in);
  ranks.all_gather(weights, owned);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  return took.count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(Communicator& mpi, std::vector<std::unique_ptr<Communicator>>& own, double megabytes,
             int rounds) {
  const auto count = static_cast<std::size_t>(megabytes * 1e6 / sizeof(float));
  std::vector<float> gradient(count, 1.0f);
  std::vector<float> received(count + mpi.size());
  std::vector<float> weights(count, 1.0f);
  std::vector<std::vector<double>> times(1 + own.size());
  for (int round = -2; round < rounds; ++round) {
    for (std::size_t kind = 0; kind < times.size(); ++kind) {
      Communicator& ranks = kind == 0 ? mpi : *own[kind - 1];
      const double took = exchange_ms(ranks, gradient, received, weights);
      if (round >= 0) times[kind].push_back(took);
    }
  }
  if (mpi.rank() != 0) return;
  std::printf("%7.1f", megabytes);
  for (const auto& kind : times) std::printf(" %10.2f", median(kind));
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 2 ? std::stoi(argv[2]) : 15;
  const auto mpi = make_mpi_communicator(std::chrono::seconds(60));
  // Rank 0 chooses a port for each; ranks of one machine learn it through MPI.
  std::vector<MeshOptions> kinds(3);
  kinds[1].reads_memory = false;
  kinds[2].shares_memory = false;
  std::vector<std::unique_ptr<Communicator>> own;
  for (const MeshOptions& kind : kinds) {
    const auto port = mpi->gather_texts(std::to_string(port_of(listen_tcp(AF_INET))))[0];
    own.push_back(make_mesh_communicator(
        {"bound", 1, mpi->rank(), mpi->size()},
        {"127.0.0.1", static_cast<std::uint16_t>(std::stoi(port)), std::chrono::seconds(20)},
        kind));
  }
  if (mpi->rank() == 0) {
    std::printf("%7s %10s %10s %10s %10s   ms per exchange\n", "MB", "MPI", "memory", "ring",
                "TCP");
  }
  for (const double megabytes : {0.2, 1.8, 13.0, 43.0, 160.0}) {
    compare(*mpi, own, megabytes, rounds);
  }
}
