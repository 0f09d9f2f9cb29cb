// The lease of a node's ranks: until when they may run and write. The agent that starts them
// grants it, its keeper and every rank that looks can see it, and nobody else renews it: a rank
// whose agent stands still or is dead sees it run out.
//
// Format: 16 bytes in memory that no disk can hold up: the text "MUSTRLS1", then the end of the
// lease in microseconds of CLOCK_BOOTTIME, which goes on while the host is suspended, as a
// little-endian u64 that is replaced in one store. A rank finds it at the path in MUSTER_LEASE.
#pragma once

#include <optional>
#include <string>

#include "runtime/protocol/boot_clock.h"
#include "runtime/protocol/descriptor.h"

namespace muster {

class Lease {
 public:
  // Of the agent: over, until it is granted. Nothing when the kernel gives no memory.
  static std::optional<Lease> create();
  // Of a rank, which only looks. Nothing when there is no lease at `path`.
  static std::optional<Lease> open(const std::string& path);

  void grant(BootTime until);
  BootTime until() const;
  // Where other processes of the user find it, as long as this one lives.
  std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.get());
  }

 private:
  struct Page;
  Lease(Descriptor fd, Mapping memory) : fd_(std::move(fd)), memory_(std::move(memory)) {}
  static std::optional<Lease> map(Descriptor fd, int protection);
  Page& page() const { return *static_cast<Page*>(memory_.get()); }

  Descriptor fd_;
  Mapping memory_;
};

}  // namespace muster
