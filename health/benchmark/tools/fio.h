// How fast a directory's disk takes and gives data: a file is written by several threads, flushed,
// then read. The file has no name once it is open, so that nothing stays behind; it takes at most a
// small part of the free space. Past the page cache where the file system lets it. Any call may
// block for as long as the disk does: the caller kills the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "scheduler/model/result.h"

namespace muster {

// Of the free space: others may write at the same time.
inline constexpr double disk_probe_free_share = 0.05;
inline constexpr std::uint64_t disk_block_bytes = 4ull << 20;
// Less tells of the disk's own cache only.
inline constexpr std::uint64_t disk_probe_least_bytes = 32ull << 20;

struct DiskProbeOptions {
  std::string directory;
  std::uint64_t bytes = 4ull << 30;
  // Writing ends after half of it, wherever it is; reading as well.
  std::chrono::milliseconds time{20'000};
};

struct DiskRates {
  double write_mb_per_s = 0;  // with the flush
  double read_mb_per_s = 0;
};

// An error when there is no room, when the file would lie in memory, or when other data comes back.
Result<DiskRates> disk_rates(const DiskProbeOptions& options);

// What the probe would write: the wish or the allowed part of the free space, in whole blocks.
std::uint64_t disk_probe_bytes(std::uint64_t wanted, std::uint64_t free_bytes);

}  // namespace muster
