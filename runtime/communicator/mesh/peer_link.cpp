#include "runtime/communicator/mesh/peer_link.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

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

std::size_t ByteRing::write_some(std::span<const char> bytes) {
  const std::uint64_t at = written.load(std::memory_order_relaxed);
  const std::uint64_t used = at - read.load(std::memory_order_acquire);
  const std::size_t count = std::min<std::size_t>(bytes.size(), ring_bytes - used);
  const std::size_t place = at % ring_bytes;
  const std::size_t first = std::min(count, ring_bytes - place);
  std::memcpy(data + place, bytes.data(), first);
  std::memcpy(data, bytes.data() + first, count - first);
  written.store(at + count, std::memory_order_release);
  return count;
}

std::size_t ByteRing::read_some(std::span<char> bytes) {
  const std::uint64_t at = read.load(std::memory_order_relaxed);
  const std::uint64_t there = written.load(std::memory_order_acquire) - at;
  const std::size_t count = std::min<std::size_t>(bytes.size(), there);
  const std::size_t place = at % ring_bytes;
  const std::size_t first = std::min(count, ring_bytes - place);
  std::memcpy(bytes.data(), data + place, first);
  std::memcpy(bytes.data() + first, data, count - first);
  read.store(at + count, std::memory_order_release);
  return count;
}

PairMemory PairMemory::make(std::uint64_t nonce) {
  Descriptor descriptor(memfd_create("muster-ranks", MFD_CLOEXEC));
  if (!descriptor || ftruncate(descriptor.get(), sizeof(PairSegment)) != 0) {
    throw SocketError(std::string("shared memory for two ranks cannot be made: ") +
                      std::strerror(errno));
  }
  // Where ranks may not look into each other otherwise (Yama), this lets them.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  return PairMemory(std::move(descriptor), 0, nonce);
}

PairMemory PairMemory::open(Descriptor descriptor, std::uint64_t nonce) {
  struct stat found {};
  if (!descriptor || fstat(descriptor.get(), &found) != 0 ||
      static_cast<std::size_t>(found.st_size) != sizeof(PairSegment)) {
    throw SocketError("a rank of this node sent no shared memory");
  }
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  return PairMemory(std::move(descriptor), 1, nonce);
}

PairMemory::PairMemory(Descriptor descriptor, int side, std::uint64_t nonce)
    : descriptor_(std::move(descriptor)),
      mapping_(sizeof(PairSegment), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get()),
      side_(side),
      probe_(std::make_unique<std::uint64_t>(nonce)) {
  if (mapping_.get() == nullptr) {
    throw SocketError(std::string("shared memory of two ranks cannot be mapped: ") +
                      std::strerror(errno));
  }
  if (side == 0) segment().nonce = nonce;  // all else is zero, as fresh counters are
  if (segment().nonce != nonce) throw SocketError("a rank of this node sent other memory");
  segment().probes[side] = reinterpret_cast<std::uint64_t>(probe_.get());
}

bool PairMemory::can_read_from(int pid) const {
  std::uint64_t seen = 0;
  const std::span<char> bytes(reinterpret_cast<char*>(&seen), sizeof seen);
  return pid > 0 && read_memory_of(pid, segment().probes[1 - side_], bytes) &&
         seen == segment().nonce;
}

bool read_memory_of(int pid, std::uint64_t address, std::span<char> bytes) {
  while (!bytes.empty()) {
    const iovec here{bytes.data(), bytes.size()};
    const iovec there{reinterpret_cast<void*>(address), bytes.size()};
    const ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    address += static_cast<std::uint64_t>(got);
  }
  return true;
}

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
