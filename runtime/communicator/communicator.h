// What the ranks of a run need from each other, and nothing more.
//
// Implementations: MPI, and mesh (own shared memory and TCP).
// All ranks call the same methods in the same order; a call returns when this rank's part is done,
// but for start_*(), which return at once. Counts are elements, never bytes. Data only moves: sums
// are formed by the caller in an order of its own, so that no library decides the bits of a result.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/flat_space.h"
#include "runtime/protocol/packed_fields.h"
#include "runtime/protocol/start_error.h"

namespace muster {

// A transfer under way. The spans it was given stay untouched until wait() returned; lists of
// ranges may go at once. Any number may be under way; all ranks start the same transfers in the
// same order and may wait for them in any: whenever a rank waits for anything, all its transfers
// move on. One that is destroyed before that is given up, after which the ranks can only end.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual bool done() = 0;  // lets it move on; never blocks
  virtual void wait() = 0;  // at once when it is done
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;

  // Sends send[send_ranges[r]] to every rank r and fills receive[receive_ranges[r]] from it. Ranges
  // are offsets into the spans, one per rank; what r sends to q has the length that q expects from
  // r.
  virtual std::unique_ptr<Transfer> start_all_to_all(
      std::span<const float> send, std::span<const ElementRange> send_ranges,
      std::span<float> receive, std::span<const ElementRange> receive_ranges) = 0;
  void all_to_all(std::span<const float> send, std::span<const ElementRange> send_ranges,
                  std::span<float> receive, std::span<const ElementRange> receive_ranges) {
    start_all_to_all(send, send_ranges, receive, receive_ranges)->wait();
  }

  // Rank r owns whole[owned[r]]; afterwards every rank has all of them.
  virtual std::unique_ptr<Transfer> start_all_gather(std::span<float> whole,
                                                     std::span<const ElementRange> owned) = 0;
  void all_gather(std::span<float> whole, std::span<const ElementRange> owned) {
    start_all_gather(whole, owned)->wait();
  }

  // The text of every rank, by rank; lengths may differ. Also a barrier.
  virtual std::vector<std::string> gather_texts(std::string_view mine) = 0;

  // Copies `bytes` of rank `root` to all ranks.
  virtual void broadcast(std::span<char> bytes, std::size_t root) = 0;

  // Ends every rank of the run at once; does not return.
  virtual void abort(int exit_code) = 0;
};

// A communicator of one rank: a mesh (mesh.h) of nobody else.
std::unique_ptr<Communicator> make_single_communicator();

// Open MPI (mpi.cpp), for the program alone: mpirun starts the ranks and names them through the
// environment. One communicator per process, on the main thread; its destructor calls MPI_Finalize.

// Whether OMPI_COMM_WORLD_SIZE is above 1.
bool started_by_mpirun();

// Initializes MPI and returns its world. Throws StartError when the world has another size than
// mpirun announced: every rank would then train alone. Its calls throw std::runtime_error when the
// others do not answer within `peer_timeout`; 0 waits for ever.
std::unique_ptr<Communicator> make_mpi_communicator(std::chrono::seconds peer_timeout);

// The values of all ranks, by rank: what MUSTER_FIELDS lists, or numbers. Collective. Throws
// std::runtime_error, on all ranks alike, when one of them cannot be read.
template <class Value>
std::vector<Value> gather_values(Communicator& ranks, const Value& mine) {
  std::vector<Value> all;
  for (const std::string& bytes : ranks.gather_texts(packed(mine))) {
    auto value = unpacked<Value>(bytes);
    if (!value) {
      throw std::runtime_error("what rank " + std::to_string(all.size()) + " says is garbled");
    }
    all.push_back(std::move(*value));
  }
  return all;
}

// Agreement between ranks: a failure on one rank must reach the others before the next collective,
// or they wait forever. Collective.

// A text from every rank, by rank; when some have a fault, all get the first one, with its rank.
Checked<std::vector<std::string>> gather_checked(Communicator& ranks,
                                                 const Checked<std::string>& mine);

// Whether all ranks have done their part; the first fault otherwise, with its rank.
Checked<NoValue> all_done(Communicator& ranks, const Checked<NoValue>& mine);

// The text of rank 0; the argument of other ranks is ignored.
std::string from_rank_0(Communicator& ranks, const std::string& text);

// Runs a part of the start that may fail on this rank alone; all ranks go on, or all throw the
// first reason.
template <class Part>
auto on_all_ranks(Communicator& ranks, Part part) {
  std::optional<decltype(part())> result;
  Checked<NoValue> mine = NoValue{};
  try {
    result = part();
  } catch (const StartError& error) {
    mine = CheckpointFault{error.what()};
  }
  needed(all_done(ranks, mine));
  return std::move(*result);
}

// What one process was given, as lines "name=value"; `name`: how a person knows it.
struct GivenOptions {
  std::string name;  // "rank 3"
  std::string text;
};
// One sentence that names the first option that differs, who has which value of it, and what else
// differs; empty: nothing does. Pure.
std::string options_difference(const std::vector<GivenOptions>& all);

struct AllreduceTime {
  double seconds = 0;  // of one, median over the rounds, the slowest rank's
  bool is_right = false;
};

AllreduceTime time_allreduce(Communicator& ranks, std::size_t bytes, int rounds);

// What each link of a ring would carry: 2 (n - 1) / n x bytes / time.
double bus_gb_per_s(std::size_t ranks, std::size_t bytes, double seconds);

// What an all-reduce between the ranks of a run takes, as a training step makes it: every rank gets
// its part of all, adds them up in the order of the ranks, and gives the sums to all.
//
// All ranks call it alike. Rank 0 prints, one line for each figure, "metric - value", or
// "metric - error TEXT" when sums are wrong or there is one rank only; the metrics are those of the
// health check perf.collective. Throws what the communicator throws.
void probe_allreduce(Communicator& ranks);

}  // namespace muster
