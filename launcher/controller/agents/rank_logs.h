// Writes what ranks said to `attempt-<n>/rank-<r>.log`, each byte once: a piece that overlaps what
// is there already is cut; bytes that are missing before it are replaced by a line that says so,
// and counted in `rank-<r>.lost`. Keeps a bounded number of files open.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string_view>
#include <tuple>

#include "launcher/controller/store/home.h"
#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

// The "rank" whose output is what mpirun itself says: `mpirun.log`.
inline constexpr RankId mpirun_log{-1};

class RankLogs {
 public:
  explicit RankLogs(Home home) : home_(std::move(home)) {}

  // Bytes of the rank's output that need not come again: where the agent goes on.
  Result<std::int64_t> size(const JobId& job, AttemptId attempt, RankId rank);
  // The new size, which is what may be acknowledged.
  Result<std::int64_t> write(const JobId& job, AttemptId attempt, RankId rank, std::int64_t offset,
                             std::string_view bytes);
  Status append_metrics(const JobId& job, AttemptId attempt, std::string_view lines);
  void close_attempt(const JobId& job, AttemptId attempt);

 private:
  using Key = std::tuple<std::string, std::int64_t, std::int64_t>;
  struct File {
    Fd descriptor;
    std::int64_t size = 0;
    std::int64_t lost = 0;  // less than nothing: the words about it are longer
    std::filesystem::path note_of_loss;
    std::int64_t written() const { return std::max<std::int64_t>(0, size + lost); }  // by the rank
  };

  static Status append(File& file, std::string_view bytes);
  static Status note_gap(File& file, std::int64_t to);
  Result<File*> open(const JobId& job, AttemptId attempt, RankId rank);

  Home home_;
  std::map<Key, File> files_;
};

}  // namespace muster
