// Reads the logs of a job's ranks as they grow: files and attempts that appear later, any number of
// ranks without a descriptor held for each, never more than one block in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "scheduler/model/ids.h"

namespace muster {

struct LogSelection {
  std::optional<AttemptId> attempt;        // absent: all, in order
  std::optional<std::set<RankId>> ranks;   // absent: all
  std::optional<std::int64_t> tail_lines;  // of each file that is there at the first look
  std::optional<AttemptId> first_attempt;  // skip older ones
};

class LogFollower {
 public:
  using Sink = std::function<void(AttemptId, RankId, std::string_view)>;

  LogFollower(std::filesystem::path job_directory, LogSelection selection);

  // Gives everything appended since the last call to `sink`, at most one block of each rank in
  // turn, until nothing is left. True when something came. An attempt's logs end before the next
  // begins.
  bool poll(const Sink& sink);
  std::optional<AttemptId> attempt() const { return attempt_; }

 private:
  bool read_attempt(const Sink& sink);
  bool read_block(RankId rank, const Sink& sink);
  void find_files();
  std::optional<AttemptId> next_attempt() const;
  std::filesystem::path directory_of(AttemptId attempt) const;
  std::filesystem::path file_of(RankId rank) const;

  std::filesystem::path job_directory_;
  LogSelection selection_;
  std::optional<AttemptId> attempt_;
  std::map<RankId, std::int64_t> files_;  // bytes given so far
  std::string block_;
  bool first_look_ = true;
};

// The attempts that have a directory, in order.
std::set<AttemptId> attempts_on_disk(const std::filesystem::path& job_directory);

// The last `lines` lines of the file, at most 64 KiB of them; empty when there are none. Read from
// the back: cheap for logs of any size.
std::string last_lines_of_file(const std::filesystem::path& file, std::int64_t lines);

}  // namespace muster
