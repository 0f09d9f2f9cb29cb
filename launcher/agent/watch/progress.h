// The heartbeat and metrics files of an attempt's ranks on this node, read now and then and told to
// the controller when there is something new. Owned by the attempt; local files only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/node/peer.h"

namespace muster {

class ProgressWatch {
 public:
  void add(RankId rank, std::string heartbeat, std::string metrics);
  std::optional<std::int64_t> step_of(RankId rank) const;  // the last one that was read
  // To a controller that may not have heard them: the steps as they are now.
  void report_again();
  // Sends Progress for each rank that has news. Without a line nothing is read, so nothing is lost.
  void poll(const JobId& job, AttemptId attempt, ControllerLine& line);

 private:
  struct Watched {
    std::string heartbeat;
    std::string metrics;
    std::optional<std::int64_t> step;
    std::optional<std::int64_t> told;
    std::int64_t metrics_offset = 0;
  };

  std::map<RankId, Watched> ranks_;
};

// Whole lines of the file from `offset` on, which moves behind them; at most `limit_bytes` are
// read.
std::vector<std::string> read_new_lines(const std::string& path, std::int64_t& offset,
                                        std::size_t limit_bytes);

}  // namespace muster
