// Whether checkpoints are written in the background, and whether the host has the memory for it.
//
// A copy of the state that does not fit would end the run, hours after its start and at the hand of
// the kernel; so it is looked up before the first save.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/flat_space.h"
#include "runtime/communicator/communicator.h"
#include "runtime/train/step/options.h"
#include "scheduler/text/fields.h"

namespace muster {

// Of a rank, from which on saving automatically is saving in the background.
inline constexpr std::uint64_t background_save_bytes = 16 << 20;

// What one rank knows of its host.
struct HostMemory {
  std::string host;
  std::uint64_t slot_bytes = 0;                  // that this rank wants
  std::optional<std::uint64_t> available_bytes;  // to all ranks of the host together
  MUSTER_FIELDS(host, slot_bytes, available_bytes)
};

// The host on which the copies of all its ranks do not leave a twentieth of its free memory, with
// the figures as a sentence; empty: there is none. Pure.
std::string lack_of_memory(const std::vector<HostMemory>& ranks);

// The mode that was asked for; blocking, with a warning, where the memory does not suffice. The
// same on all ranks. Collective.
bool saves_in_background(const TrainOptions& options, const std::string& host,
                         const FlatSpace& space, Communicator& ranks, std::string& warning);

// How much memory this process may still take on its host.
//
// The smaller one of what the system calls available, and what the limits of the control groups
// above this process leave (version 2; files in the page cache count as free). Reads /proc and
// /sys/fs/cgroup, or what a test puts in their place; any thread.

// None: nothing could be found out.
std::optional<std::uint64_t> available_memory_bytes(const std::string& proc = "/proc",
                                                    const std::string& cgroups = "/sys/fs/cgroup");

}  // namespace muster
