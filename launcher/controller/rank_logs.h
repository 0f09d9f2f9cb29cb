// Writes what ranks said to `attempt-<n>/rank-<r>.log`, each byte once: a piece that overlaps what
// is there already is cut; bytes that are missing before it are replaced by a line that says so.
// Keeps a bounded number of files open.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>

#include "launcher/controller/home.h"
#include "scheduler/model/result.h"

namespace muster {

// The "rank" whose output is what mpirun itself says: `mpirun.log`.
inline constexpr RankId mpirun_log{-1};

class RankLogs {
 public:
  explicit RankLogs(Home home) : home_(std::move(home)) {}
  ~RankLogs();
  RankLogs(const RankLogs&) = delete;
  RankLogs& operator=(const RankLogs&) = delete;

  // Bytes already in the log: where the agent goes on.
  Result<std::int64_t> size(const JobId& job, AttemptId attempt, RankId rank);
  // The new size, which is what may be acknowledged.
  Result<std::int64_t> write(const JobId& job, AttemptId attempt, RankId rank, std::int64_t offset,
                             std::string_view bytes);
  Status append_metrics(const JobId& job, AttemptId attempt, std::string_view lines);
  void close_attempt(const JobId& job, AttemptId attempt);

 private:
  using Key = std::tuple<std::string, std::int64_t, std::int64_t>;
  struct File {
    int descriptor = -1;
    std::int64_t size = 0;
  };

  static Status fill_gap(File& file, std::int64_t to);
  Result<File*> open(const JobId& job, AttemptId attempt, RankId rank);

  Home home_;
  std::map<Key, File> files_;
};

}  // namespace muster
