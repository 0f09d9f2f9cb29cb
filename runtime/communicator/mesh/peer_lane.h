// How bytes get from one rank to another: a TCP connection, or memory that both share.
//
// Bytes arrive in order, in both directions at once; nothing here waits. Over shared memory a large
// block need not travel at all: the sender says where it lies, and the receiver fetches it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/communicator/mesh/pair_memory.h"
#include "runtime/communicator/mesh/socket.h"

namespace muster {

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

  // Whether the other rank fetches a block of this size by its address.
  virtual bool fetches(std::size_t bytes) const = 0;
  virtual void fetch(std::uint64_t address, std::span<char> bytes) = 0;  // throws LaneEnded
  virtual void count_fetched() = 0;                    // a block of the other's is wholly here
  virtual std::uint64_t fetched_by_other() const = 0;  // blocks of this rank's

  // What poll(2) can watch for arriving bytes; -1: nothing.
  virtual int watched() const = 0;
};

// `early`: bytes of the other rank that have been read already.
std::unique_ptr<PeerLane> make_tcp_lane(Descriptor connection, std::string early);

// `this_reads`: this rank can read the memory of process `pid`, the other one; `other_reads`: the
// other rank this one's.
std::unique_ptr<PeerLane> make_memory_lane(PairMemory memory, int pid, bool this_reads,
                                           bool other_reads);

}  // namespace muster
