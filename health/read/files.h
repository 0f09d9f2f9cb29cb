// Reads what a node's files say, and what its kernel tells by calls rather than by files. Any read
// may block for ever (a dead mount, a driver that hangs): it runs in a child process that can be
// killed, and hands over each reading as it comes, so that a kill loses none. Writes nothing.
//
// A source is an absolute path whose components may hold the stars and sets of fits_pattern:
//   /proc/[0-9]*/stat              a file's text; a directory has none, but answers
//   /sys/bus/pci/devices/*/driver@ where a symbolic link leads
//   stat:/dev/shm/nccl-*           lines "uid N", "bytes N", "modified_s N"; links are not followed
//   statvfs:/tmp                   "bytes", "bytes_available", "inodes", "inodes_available",
//                                  "read_only"
//   open:/dev/infiniband/uverbs*   read when it opens for reading and writing
//   rlimit:nofile                  "soft N", "hard N"; N may be "unlimited"; also memlock, nproc
//   adjtimex:                      "status N", "offset_us N", "max_error_us N"
// The path of a reading is its source with the stars filled in. A directory that was listed for a
// star has a reading of its own: nothing below it means that nothing fitted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/source_files.h"
#include "scheduler/model/result.h"

namespace muster {

struct ReadRequest {
  // All paths are below this directory. In a root that is not "/", a file ".probes/statvfs:%tmp"
  // (the reading's path, its slashes as %) takes the place of the call; it may say "error TEXT" or
  // "missing TEXT". So may one in the place of a file, a link or the listing of a directory.
  std::string root = "/";
  std::vector<std::string> sources;
  std::set<std::string, std::less<>> skip{};  // paths that did not answer before: left alone
  // Kernel files are short; what is longer is a mistake, and an error.
  std::size_t file_bytes_max = 256u << 10;
  // A node with 50,000 processes has about 15 MiB of their states.
  std::size_t total_bytes_max = 32u << 20;
  std::size_t readings_max = 100'000;
};

struct ReadSink {
  std::function<void(std::string_view path)> begins;  // before what may hang; may be empty
  std::function<void(std::string path, FileReading reading)> done;
};

// In the order of the sources, names in the order of their bytes; each path once.
void read_files(const ReadRequest& request, const ReadSink& sink);
SourceFiles read_files(const ReadRequest& request);

// Where a source that was not read, or not to its end, says so: the source itself, or the directory
// of its first star.
std::string place_of(std::string_view source);
// Of what the reader was killed in after so long: "no answer within 5 s".
FileReading unanswered_reading(std::chrono::milliseconds waited);
bool did_not_answer(const FileReading& reading);
// With the reason of a call that failed.
FileReading failed_reading(int error_number);

// The number behind a key, in what a call told.
std::optional<std::int64_t> probe_number(std::string_view text, std::string_view key);

// The counterpart of read_files: what was read, as a directory that reads the same. Touches the
// disk; blocks as a write does.

// Below `root`, an empty directory. Links are written last, so that no file is written through one.
// What no file can be, such as a read that failed, goes to `.probes` (files.h). Missing files
// stay missing. An Error: what could not be written.
Status write_files(const SourceFiles& files, const std::string& root);

}  // namespace muster
