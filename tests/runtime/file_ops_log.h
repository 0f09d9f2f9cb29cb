// The record in which file_ops_shim.cpp notes what a process does to files, and lost_writes.h
// reads.
//
// One after the other: a head, then the first path, the second path or the data that is written.
#pragma once

#include <cstdint>

namespace muster::test {

enum class FileOp : std::uint32_t {
  create,     // first: path
  truncate,   // first: path, offset: the length
  write,      // first: path, offset, second: the data
  sync_file,  // first: path
  sync_directory,
  make_directory,
  rename,  // first to second
  remove,  // a file or an empty directory
};

struct FileOpHead {
  FileOp op;
  std::uint32_t first_bytes;
  std::uint64_t second_bytes;
  std::uint64_t offset;
};

// Variables that the shim reads.
inline constexpr const char* shim_root = "MUSTER_SHIM_ROOT";  // what lies below it is noted
inline constexpr const char* shim_log = "MUSTER_SHIM_LOG";    // where; none: nothing is noted
inline constexpr const char* shim_end = "MUSTER_SHIM_END";    // SIGKILL before this many operations
inline constexpr const char* shim_full = "MUSTER_SHIM_FULL";  // "BYTES TIMES": so many writes fail
                                                              // with ENOSPC after so many bytes

}  // namespace muster::test
