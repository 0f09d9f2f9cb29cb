#include "runtime/communicator/mesh/peer_link.h"

#include <sys/socket.h>

#include <algorithm>
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

 private:
  PairMemory memory_;
  int pid_;
  bool other_reads_;
};

constexpr std::size_t copied_payload_bytes = 4096;
// After so much the other links, and the caller, have their turn.
constexpr std::size_t turn_bytes = 1 << 20;

FrameHeader header_of(const std::array<char, sizeof(FrameHeader)>& bytes) {
  FrameHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  return header;
}

}  // namespace

std::unique_ptr<PeerLane> make_tcp_lane(Descriptor connection, std::string early) {
  return std::make_unique<TcpLane>(std::move(connection), std::move(early));
}

std::unique_ptr<PeerLane> make_memory_lane(PairMemory memory, int pid, bool this_reads,
                                           bool other_reads) {
  return std::make_unique<MemoryLane>(std::move(memory), pid, this_reads, other_reads);
}

void PeerLink::send(FrameHeader header, std::span<const char> payload) {
  Outgoing frame;
  header.bytes = payload.size();
  frame.is_offer = lane_->fetches(payload.size());
  if (frame.is_offer) header.address = reinterpret_cast<std::uint64_t>(payload.data());
  frame.head.assign(reinterpret_cast<const char*>(&header), sizeof header);
  if (payload.size() <= copied_payload_bytes) {
    frame.head.append(payload.data(), payload.size());
  } else if (!frame.is_offer) {
    frame.payload = payload;
  }
  outgoing_.push_back(std::move(frame));
}

bool PeerLink::move() {
  const bool pushed = push();
  return pull() || pushed;
}

bool PeerLink::push() {
  bool moved = false;
  while (!outgoing_.empty()) {
    Outgoing& frame = outgoing_.front();
    const bool in_head = frame.at < frame.head.size();
    const std::span<const char> left = in_head
                                           ? std::span<const char>(frame.head).subspan(frame.at)
                                           : frame.payload.subspan(frame.at - frame.head.size());
    const std::size_t went =
        left.empty() ? 0 : lane_->write_some(left, in_head && !frame.payload.empty());
    frame.at += went;
    moved = moved || went > 0;
    if (frame.at == frame.head.size() + frame.payload.size()) {
      ++written_;
      if (frame.is_offer) offers_.push_back(written_);
      outgoing_.pop_front();
    } else if (went == 0) {
      return moved;
    }
  }
  return moved;
}

std::uint64_t PeerLink::sent() {
  const std::uint64_t fetched = lane_->fetched_by_other();
  for (; fetched_ < fetched && !offers_.empty(); ++fetched_) offers_.pop_front();
  return offers_.empty() ? written_ : offers_.front() - 1;
}

bool PeerLink::read_header() {
  if (header_at_ == header_bytes_.size()) return false;
  const std::size_t got = lane_->read_some(std::span(header_bytes_).subspan(header_at_));
  header_at_ += got;
  return got > 0;
}

void PeerLink::open_inbox() {
  const FrameHeader header = header_of(header_bytes_);
  const Expected& expected = expected_.front();
  const auto* text = std::get_if<std::string*>(&expected.inbox);
  const std::string fault =
      frame_fault(expected.header, header, own_rank_, other_rank_, text != nullptr);
  if (!fault.empty()) throw RanksDiverged(fault);
  if (text != nullptr) {
    (*text)->resize(header.bytes);
    destination_ = **text;
  } else {
    destination_ = std::get<std::span<char>>(expected.inbox);
  }
  destination_at_ = 0;
  inbox_is_open_ = true;
}

void PeerLink::finish_frame() {
  if (header_of(header_bytes_).address != 0) lane_->count_fetched();
  expected_.pop_front();
  header_at_ = 0;
  inbox_is_open_ = false;
  ++received_;
}

bool PeerLink::pull() {
  bool moved = false;
  for (std::size_t turn = 0; turn < turn_bytes;) {
    if (expected_.empty()) return moved;
    moved = read_header() || moved;
    if (header_at_ < header_bytes_.size()) return moved;
    if (!inbox_is_open_) open_inbox();
    const std::span<char> left = destination_.subspan(destination_at_);
    if (left.empty()) {
      finish_frame();
      moved = true;
      continue;
    }
    const std::uint64_t address = header_of(header_bytes_).address;
    std::size_t got = std::min(left.size(), turn_bytes);
    if (address != 0) {
      lane_->fetch(address + destination_at_, left.first(got));
    } else {
      got = lane_->read_some(left.first(got));
    }
    if (got == 0) return moved;
    destination_at_ += got;
    turn += got;
    moved = true;
  }
  return moved;
}

}  // namespace muster
