#include "runtime/communicator/mesh/peer_lane.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace muster {
namespace {

// Below it two copies through the cache cost less than a system call and looking up pages.
constexpr std::size_t fetch_from_bytes = 16 << 10;

class TcpLane final : public PeerLane {
 public:
  TcpLane(Descriptor connection, std::string early)
      : connection_(std::move(connection)), early_(std::move(early)) {}

  std::size_t write_some(std::span<const char> bytes, bool more_follows) override {
    const int flags = MSG_NOSIGNAL | (more_follows ? MSG_MORE : 0);
    return moved(::send(connection_.get(), bytes.data(), bytes.size(), flags));
  }

  std::size_t read_some(std::span<char> bytes) override {
    if (!early_.empty()) {
      const std::size_t count = early_.copy(bytes.data(), bytes.size());
      early_.erase(0, count);
      return count;
    }
    const ssize_t got = ::recv(connection_.get(), bytes.data(), bytes.size(), 0);
    if (got == 0) throw LaneEnded{"it closed the connection"};
    return moved(got);
  }

  bool fetches(std::size_t) const override { return false; }
  void fetch(std::uint64_t, std::span<char>) override {
    throw LaneEnded{"it sent an address over a network"};
  }
  void count_fetched() override {}
  std::uint64_t fetched_by_other() const override { return 0; }
  int watched() const override { return connection_.get(); }

 private:
  static std::size_t moved(ssize_t result) {
    if (result >= 0) return static_cast<std::size_t>(result);
    if (errno == EAGAIN || errno == EINTR) return 0;
    throw LaneEnded{std::strerror(errno)};
  }

  Descriptor connection_;
  std::string early_;
};

class MemoryLane final : public PeerLane {
 public:
  MemoryLane(PairMemory memory, int pid, bool this_reads, bool other_reads)
      : memory_(std::move(memory)), pid_(this_reads ? pid : 0), other_reads_(other_reads) {}

  std::size_t write_some(std::span<const char> bytes, bool) override {
    return memory_.outgoing().write_some(bytes);
  }
  std::size_t read_some(std::span<char> bytes) override {
    return memory_.incoming().read_some(bytes);
  }
  bool fetches(std::size_t bytes) const override {
    return other_reads_ && bytes >= fetch_from_bytes;
  }
  void fetch(std::uint64_t address, std::span<char> bytes) override {
    if (pid_ == 0 || !read_memory_of(pid_, address, bytes)) {
      throw LaneEnded{"its memory cannot be read any more"};
    }
  }
  void count_fetched() override {
    memory_.incoming().copied.fetch_add(1, std::memory_order_release);
  }
  std::uint64_t fetched_by_other() const override {
    return memory_.outgoing().copied.load(std::memory_order_acquire);
  }
  int watched() const override { return -1; }

 private:
  PairMemory memory_;
  int pid_;
  bool other_reads_;
};

}  // namespace

std::unique_ptr<PeerLane> make_tcp_lane(Descriptor connection, std::string early) {
  return std::make_unique<TcpLane>(std::move(connection), std::move(early));
}

std::unique_ptr<PeerLane> make_memory_lane(PairMemory memory, int pid, bool this_reads,
                                           bool other_reads) {
  return std::make_unique<MemoryLane>(std::move(memory), pid, this_reads, other_reads);
}

}  // namespace muster
