// Memory that two ranks of one node share, and nobody else: a ring of bytes for each direction.
//
// The segment has no name: it is handed over as a descriptor, and is gone with the last of the two
// processes, however they end. Each ring has one writer and one reader; they never wait here.
//
// Small data goes through the ring. Where a rank can read the other's memory (process_vm_readv; the
// kernel may forbid it), the ring only says where large data lies, and the reader copies it from
// there: once instead of twice, and without the other's help.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/communicator/mesh/socket.h"

namespace muster {

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

}  // namespace muster
