#include "launcher/agent/watch/metrics.h"

#include <algorithm>
#include <iterator>

namespace muster {

namespace {

constexpr std::chrono::seconds metric_look_interval{5};
constexpr int metric_look_share = 50;
// A look that takes longer waits for a file system that hangs; the last one holds the node up.
constexpr Milliseconds metric_look_limit{20'000};
constexpr Milliseconds last_looks_limit{5'000};  // of all that are needed to the end

}  // namespace

void MetricWatch::poll(Clock::time_point now, bool are_ranks_over,
                       const std::function<void()>& on_done) {
  if (is_looking_ && are_ranks_over && !last_began_) {
    tasks_.stop(look_id_);  // it may hang; what it would find the last one does
    is_looking_ = false;
  }
  if (is_looking_ || is_done_ || (now < next_look_ && !are_ranks_over)) return;
  if (are_ranks_over && !last_began_) last_began_ = now;
  is_looking_ = true;
  began_ = now;
  const auto used = std::chrono::duration_cast<Milliseconds>(now - last_began_.value_or(now));
  look_id_ = tasks_.run([places = places_, state = look_.state](
                 const ChildTasks::Tell&) { return text_of(look_at_metrics(places, state)); },
             last_began_ ? last_looks_limit - used : metric_look_limit,
             [self = shared_from_this(), number = ++looks_,
              on_done](const Result<std::string>& answer) {
               if (number != self->looks_) return;
               self->add(answer);
               if (self->is_done_) on_done();
             });
}

void MetricWatch::add(const Result<std::string>& answer) {
  const auto now = Clock::now();
  MetricLook found = answer ? look_of(*answer) : MetricLook{look_.state};
  const Clock::duration pause = metric_look_share * (now - began_);
  next_look_ = now + std::max<Clock::duration>(metric_look_interval, pause);
  if (found.is_cut) next_look_ = now;
  std::ranges::move(found.lines, std::back_inserter(look_.lines));
  std::ranges::move(found.notes, std::back_inserter(look_.notes));
  look_.state = std::move(found.state);
  is_looking_ = false;
  is_done_ = last_began_ && (!found.is_cut || now - *last_began_ > last_looks_limit);
}

}  // namespace muster
