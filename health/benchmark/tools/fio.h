// How fast a directory's disk takes and gives data, by fio (https://github.com/axboe/fio, 3.x): a
// file is written and flushed, then read. It has no name, so that nothing stays behind, and takes
// at most a small part of the free space. Past the page cache where the file system lets it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/performance.h"
#include "scheduler/model/result.h"

namespace muster {

// Of the free space: others may write at the same time.
inline constexpr double disk_probe_free_share = 0.05;
inline constexpr std::uint64_t disk_block_bytes = 4ull << 20;
// Less tells of the disk's own cache only.
inline constexpr std::uint64_t disk_probe_least_bytes = 32ull << 20;

enum class DiskWay { write, read };

struct FioCall {
  DiskWay way = DiskWay::write;
  std::string file;
  std::uint64_t bytes = 0;  // of it, from its begin on
  std::chrono::seconds time{10};
  bool is_direct = true;
};
std::vector<std::string> fio_argv(const FioCall& call);

struct FioFigures {
  double mb_per_s = 0;
  std::uint64_t bytes = 0;  // that were written or read
};
// Of the one job of its JSON. An error when the job had one.
Result<FioFigures> read_fio(std::string_view json, DiskWay way);

// What is written: the wish or the allowed part of the free space, in whole blocks.
std::uint64_t disk_probe_bytes(std::uint64_t wanted, std::uint64_t free_bytes);

struct DiskProbeOptions {
  std::string directory;
  std::uint64_t bytes = 4ull << 30;
  std::chrono::seconds time{20};  // writing and reading end after half of it, wherever they are
};

// fio_write_mb_per_s and fio_read_mb_per_s; without a number where there is no room, or where the
// file would lie in memory.
std::vector<PerformanceSample> disk_samples(const DiskProbeOptions& options);

}  // namespace muster
