#include "runtime/communicator/mesh/pair_memory.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace muster {

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

}  // namespace muster
