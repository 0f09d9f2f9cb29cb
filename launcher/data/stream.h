// The data of an input read through a mount (FUSE) of their store, where they do not fit into the
// cache, and data that a person mounts. A process beside the agent, or that person's, keeps the
// mount for as long as somebody holds its lock:
//
//   streams/<name>.lock   held (flock, shared) by it until the attempt ends, or it dies
//   streams/<name>/mount  with `d` in it, which is the data
//   streams/<name>/cache  a link to what rclone keeps, in the cache of data
//   streams/<name>/why    while the store does not answer: one sentence
#pragma once

#include <filesystem>
#include <string>

#include "launcher/data/cache.h"
#include "launcher/os/fd.h"
#include "scheduler/model/ids.h"

namespace muster {

// Of one input or output of an attempt, below a directory of the agent's own.
std::filesystem::path stream_directory(const std::string& root, const JobId& job, AttemptId attempt,
                                       const StagedData& data);
Result<Fd> hold_stream(const std::filesystem::path& directory);

// What a stream may keep, and where; what it asks for to see whether the store answers.
struct StreamCache {
  std::filesystem::path parent;  // `streams` in the cache of data
  std::int64_t bytes = 0;
  std::string first_file;
};

// Blocks until the data can be read at `directory`/mount/d.
Status begin_stream(const StagedData& data, const std::filesystem::path& directory,
                    const StreamCache& cache, const std::string& machine, const TellData& tell);

// Why a store that an attempt reads from does not answer; empty: all do.
std::string trouble_of_streams(const std::string& root, const JobId& job, AttemptId attempt);

// Mounts whose keeper was killed.
void remove_left_streams(const std::string& root);

}  // namespace muster
