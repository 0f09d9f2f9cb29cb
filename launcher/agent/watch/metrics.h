// When to look at the metrics that an attempt's program on this node writes to files of its own, in
// child tasks. Owned by the attempt, on the agent's thread, and by a child's answer.
//
//   looking every 5 s (at most a fiftieth of the time) ─► ranks ended ─► last look ─► done
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "launcher/agent/metric_sources/follow.h"
#include "launcher/agent/node/child_tasks.h"

namespace muster {

class MetricWatch : public std::enable_shared_from_this<MetricWatch> {
 public:
  using Clock = std::chrono::steady_clock;

  MetricWatch(ChildTasks& tasks, MetricPlaces places) : tasks_(tasks), places_(std::move(places)) {}

  // May begin a look. `on_done`: the last one is over.
  void poll(Clock::time_point now, bool are_ranks_over, const std::function<void()>& on_done);
  MetricLook take() { return look_.take(); }
  // And everything taken.
  bool is_done() const { return is_done_ && look_.lines.empty() && look_.notes.empty(); }

 private:
  void add(const Result<std::string>& answer);

  ChildTasks& tasks_;
  MetricPlaces places_;
  MetricLook look_;
  bool is_looking_ = false;
  ChildTasks::TaskId look_id_ = 0;
  int looks_ = 0;
  bool is_done_ = false;
  Clock::time_point began_;
  Clock::time_point next_look_ = Clock::now() + std::chrono::seconds{5};
  std::optional<Clock::time_point> last_began_;
};

}  // namespace muster
