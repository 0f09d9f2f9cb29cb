#include "runtime/communicator/communicator.h"

#include <mpi.h>

#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <thread>

#include "runtime/protocol/start_error.h"

namespace muster {
namespace {

std::size_t announced_size() {
  const char* text = std::getenv("OMPI_COMM_WORLD_SIZE");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

// MPI 3 counts in int.
int count_of(std::uint64_t count) {
  if (count > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    throw std::length_error("an MPI message of more than 2^31 elements: use more ranks");
  }
  return static_cast<int>(count);
}

struct CountsAndOffsets {
  explicit CountsAndOffsets(std::span<const ElementRange> ranges) {
    for (const ElementRange& range : ranges) {
      counts.push_back(count_of(range.size()));
      offsets.push_back(count_of(range.lo));
    }
  }
  std::vector<int> counts;
  std::vector<int> offsets;
};

// Waits for a collective: spins while the others are likely to arrive soon, then sleeps between
// looks. Open MPI's own waiting never sleeps, and where ranks share cores with other work a rank
// that only spins or yields keeps the one it waits for from running: steps then take seconds
// instead of milliseconds. Who waits for long is to look like it from outside, where processor time
// is taken for work. A rank that stands still, or a node that is gone without closing its
// connections, would otherwise be waited for without end.
void finish_within(std::chrono::seconds limit, MPI_Request& request) {
  using Clock = std::chrono::steady_clock;
  constexpr auto spin_time = std::chrono::microseconds(200);
  constexpr auto nap = std::chrono::microseconds(50);
  constexpr auto long_wait = std::chrono::seconds(1);
  constexpr auto long_nap = std::chrono::microseconds(2000);
  const auto begin = Clock::now();
  int done = 0;
  while (true) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return;
    const auto waited = Clock::now() - begin;
    if (limit.count() > 0 && waited > limit) {
      throw std::runtime_error("no answer from the other ranks for " +
                               std::to_string(limit.count()) +
                               " s (--peer-timeout): one of them hangs, or its node is gone");
    }
    if (waited > spin_time) std::this_thread::sleep_for(waited > long_wait ? long_nap : nap);
  }
}

// Holds the counts and offsets too, which MPI may read until the end.
class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(std::chrono::seconds peer_timeout, std::vector<CountsAndOffsets> parts)
      : peer_timeout_(peer_timeout), parts_(std::move(parts)) {}

  bool done() override {
    int done = 0;
    MPI_Test(&request_, &done, MPI_STATUS_IGNORE);  // at once when there is no request any more
    return done != 0;
  }
  void wait() override { finish_within(peer_timeout_, request_); }

  const CountsAndOffsets& part(std::size_t index) const { return parts_[index]; }
  MPI_Request& request() { return request_; }

 private:
  std::chrono::seconds peer_timeout_;
  std::vector<CountsAndOffsets> parts_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(std::chrono::seconds peer_timeout) : peer_timeout_(peer_timeout) {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank_ = static_cast<std::size_t>(rank);
    size_ = static_cast<std::size_t>(size);
  }
  ~MpiCommunicator() override { MPI_Finalize(); }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }

  std::unique_ptr<Transfer> start_all_to_all(
      std::span<const float> send, std::span<const ElementRange> send_ranges,
      std::span<float> receive, std::span<const ElementRange> receive_ranges) override {
    auto transfer = std::make_unique<MpiTransfer>(
        peer_timeout_,
        std::vector{CountsAndOffsets(send_ranges), CountsAndOffsets(receive_ranges)});
    const CountsAndOffsets& out = transfer->part(0);
    const CountsAndOffsets& in = transfer->part(1);
    MPI_Ialltoallv(send.data(), out.counts.data(), out.offsets.data(), MPI_FLOAT, receive.data(),
                   in.counts.data(), in.offsets.data(), MPI_FLOAT, MPI_COMM_WORLD,
                   &transfer->request());
    return transfer;
  }

  std::unique_ptr<Transfer> start_all_gather(std::span<float> whole,
                                             std::span<const ElementRange> owned) override {
    auto transfer =
        std::make_unique<MpiTransfer>(peer_timeout_, std::vector{CountsAndOffsets(owned)});
    const CountsAndOffsets& parts = transfer->part(0);
    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole.data(), parts.counts.data(),
                    parts.offsets.data(), MPI_FLOAT, MPI_COMM_WORLD, &transfer->request());
    return transfer;
  }

  std::vector<std::string> gather_texts(std::string_view mine) override {
    const int length = count_of(mine.size());
    std::vector<int> lengths(size_);
    MPI_Request request{};
    MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
    wait_for(request);
    std::vector<int> offsets(size_);
    std::uint64_t total = 0;
    for (std::size_t r = 0; r < size_; ++r) {
      offsets[r] = count_of(total);
      total += static_cast<std::uint64_t>(lengths[r]);
    }
    std::string all(total, '\0');
    MPI_Iallgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                    MPI_CHAR, MPI_COMM_WORLD, &request);
    wait_for(request);
    std::vector<std::string> texts;
    for (std::size_t r = 0; r < size_; ++r) texts.push_back(all.substr(offsets[r], lengths[r]));
    return texts;
  }

  void broadcast(std::span<char> bytes, std::size_t root) override {
    MPI_Request request{};
    MPI_Ibcast(bytes.data(), count_of(bytes.size()), MPI_CHAR, static_cast<int>(root),
               MPI_COMM_WORLD, &request);
    wait_for(request);
  }

  void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  void wait_for(MPI_Request request) const { finish_within(peer_timeout_, request); }

  std::chrono::seconds peer_timeout_;
  std::size_t rank_ = 0;
  std::size_t size_ = 0;
};

}  // namespace

bool started_by_mpirun() {
  return announced_size() > 1;
}

std::unique_ptr<Communicator> make_mpi_communicator(std::chrono::seconds peer_timeout) {
  int provided = 0;  // checkpoints are written by threads that never call MPI
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  auto world = std::make_unique<MpiCommunicator>(peer_timeout);
  if (world->size() != announced_size()) {
    throw StartError("MPI joined " + std::to_string(world->size()) +
                     " ranks, but mpirun announced " + std::to_string(announced_size()) +
                     ": start every rank with the same mpirun (distribution type mpi)");
  }
  return world;
}

}  // namespace muster
