// The frames between this rank and one other: what is to go, what is expected, and how far it is.
//
// Frames go and come in the order in which they were given. Each that comes is checked against what
// this rank expects there, so that ranks which do not take the same steps say so instead of mixing
// up their data. Nothing here waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>

#include "runtime/communicator/mesh/socket.h"
#include "runtime/communicator/mesh/wire.h"

namespace muster {

// Memory that two ranks of one node share, and nobody else: a ring of bytes for each direction.
//
// The segment has no name: it is handed over as a descriptor, and is gone with the last of the two
// processes, however they end. Each ring has one writer and one reader; they never wait here.
//
// Small data goes through the ring. Where a rank can read the other's memory (process_vm_readv; the
// kernel may forbid it), the ring only says where large data lies, and the reader copies it from
// there: once instead of twice, and without the other's help.

inline constexpr std::size_t ring_bytes = 512 << 10;  // a quarter of a usual second-level cache

// Counters of bytes since the beginning; on cache lines of their own, as each has one writer.
struct ByteRing {
  alignas(64) std::atomic<std::uint64_t> written = 0;
  alignas(64) std::atomic<std::uint64_t> read = 0;
  alignas(64) std::atomic<std::uint64_t> copied = 0;  // blocks that the reader fetched by address
  alignas(64) char data[ring_bytes] = {};

  std::size_t write_some(std::span<const char> bytes);
  std::size_t read_some(std::span<char> bytes);
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct PairSegment {
  std::uint64_t nonce = 0;
  std::uint64_t probes[2] = {};  // where each side keeps a copy of the nonce, in its own memory
  ByteRing rings[2];             // from the side that made the segment, and back
};

// One side of a segment.
class PairMemory {
 public:
  // Makes a segment; `descriptor()` is for the other side.
  static PairMemory make(std::uint64_t nonce);
  // The other side's view of it. Throws SocketError when this is no such segment.
  static PairMemory open(Descriptor descriptor, std::uint64_t nonce);

  const Descriptor& descriptor() const { return descriptor_; }
  ByteRing& outgoing() const { return segment().rings[side_]; }
  ByteRing& incoming() const { return segment().rings[1 - side_]; }

  // Whether the memory of process `pid` can be read: tries it on what the other side keeps there.
  bool can_read_from(int pid) const;

 private:
  PairMemory(Descriptor descriptor, int side, std::uint64_t nonce);
  PairSegment& segment() const { return *static_cast<PairSegment*>(mapping_.get()); }

  Descriptor descriptor_;
  Mapping mapping_;
  int side_;
  std::unique_ptr<std::uint64_t> probe_;  // stays where it is while this object moves
};

// Copies from `address` in the memory of `pid`; false when the kernel refuses or the process is
// gone.
bool read_memory_of(int pid, std::uint64_t address, std::span<char> bytes);

// How bytes get from one rank to another: a TCP connection, or memory that both share.
//
// Bytes arrive in order, in both directions at once; nothing here waits. Over shared memory a large
// block need not travel at all: the sender says where it lies, and the receiver fetches it.

// The other rank is gone, or cannot be reached any more.
struct LaneEnded {
  std::string why;
};

class PeerLane {
 public:
  virtual ~PeerLane() = default;
  // How many bytes went; 0 when there is no room, or nothing has come. Throw LaneEnded.
  virtual std::size_t write_some(std::span<const char> bytes, bool more_follows) = 0;
  virtual std::size_t read_some(std::span<char> bytes) = 0;

  // Whether the other rank fetches a block of this size by its address; none does over a network.
  virtual bool fetches(std::size_t) const { return false; }
  virtual void fetch(std::uint64_t, std::span<char>) {  // throws LaneEnded
    throw LaneEnded{"it sent an address over a network"};
  }
  virtual void count_fetched() {}                               // of the other's, wholly here
  virtual std::uint64_t fetched_by_other() const { return 0; }  // blocks of this rank's

  // What poll(2) can watch for arriving bytes; -1: nothing.
  virtual int watched() const { return -1; }
};

// `early`: bytes of the other rank that have been read already.
std::unique_ptr<PeerLane> make_tcp_lane(Descriptor connection, std::string early);

// `this_reads`: this rank can read the memory of process `pid`, the other one; `other_reads`: the
// other rank this one's.
std::unique_ptr<PeerLane> make_memory_lane(PairMemory memory, int pid, bool this_reads,
                                           bool other_reads);

// The ranks are not in the same operation.
struct RanksDiverged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Where a frame's bytes go: memory of the length they must have, or a text of any length.
using Inbox = std::variant<std::span<char>, std::string*>;

class PeerLink {
 public:
  PeerLink(std::uint64_t own_rank, std::uint64_t other_rank, std::unique_ptr<PeerLane> lane)
      : own_rank_(own_rank), other_rank_(other_rank), lane_(std::move(lane)) {}

  // `payload` stays as it is until sent() has reached this frame.
  void send(FrameHeader header, std::span<const char> payload);
  void expect(const FrameHeader& header, const Inbox& inbox) {
    expected_.push_back({header, inbox});
  }

  // Moves what can be moved now; whether anything did. Throws LaneEnded, RanksDiverged.
  bool move();

  // Frames, counted from the first: so many have been sent and need their payload no more, so many
  // have come.
  std::uint64_t sent();
  std::uint64_t received() const { return received_; }

  const PeerLane& lane() const { return *lane_; }

 private:
  struct Outgoing {
    std::string head;  // the header, and a payload so small that it is copied
    std::span<const char> payload;
    bool is_offer = false;  // the payload is fetched by its address
    std::size_t at = 0;     // bytes of head and payload that went
  };
  struct Expected {
    FrameHeader header;
    Inbox inbox;
  };

  bool push();
  bool pull();
  bool read_header();
  void open_inbox();
  void finish_frame();

  std::uint64_t own_rank_;
  std::uint64_t other_rank_;
  std::unique_ptr<PeerLane> lane_;

  std::deque<Outgoing> outgoing_;
  std::deque<std::uint64_t> offers_;  // frames whose payload the other rank has not fetched yet
  std::uint64_t written_ = 0;
  std::uint64_t fetched_ = 0;  // offers that the other rank is known to have fetched

  std::deque<Expected> expected_;
  std::array<char, sizeof(FrameHeader)> header_bytes_{};
  std::size_t header_at_ = 0;
  std::span<char> destination_;  // of the frame under way
  std::size_t destination_at_ = 0;
  bool inbox_is_open_ = false;
  std::uint64_t received_ = 0;
};

}  // namespace muster
