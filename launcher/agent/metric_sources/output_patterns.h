// Metrics in what ranks print (`muster.metrics.regex`): regular expressions with named groups,
// searched line by line while the output is on its way. Owned by an attempt, on the agent's thread:
// lines are cut at 4096 bytes, and what takes more than a fifth of the time is passed over.
#pragma once

#include <chrono>

#include "launcher/agent/metric_sources/follow.h"
#include "scheduler/model/ids.h"
#include "scheduler/restart/pattern.h"

namespace muster {

class OutputPatterns {
 public:
  using Clock = std::chrono::steady_clock;

  // Patterns, or hf: {'loss': '3.585', 'epoch': 0.1}, as the Hugging Face Trainer prints it.
  void set(const std::vector<std::string>& texts);
  // Bytes of the rank's output; those before are known when they come again.
  void take(RankId rank, std::int64_t offset, std::string_view bytes);
  MetricLook take() { return look_.take(); }

 private:
  struct Printed {
    std::int64_t seen = 0;
    std::string line;  // its beginning, until its end comes
  };

  void take_line(RankId rank, std::string_view line);

  std::vector<Pattern> patterns_;
  bool reads_maps_ = false;
  std::map<RankId, Printed> printed_;
  MetricLook look_;
  bool is_noted_ = false;
  Clock::time_point asked_at_{};
  Clock::duration left_{};  // of the time that may be used
};

}  // namespace muster
