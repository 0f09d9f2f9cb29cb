#include "tests/sim/event_queue.h"

#include <algorithm>
#include <utility>

namespace muster::sim {

void EventQueue::after(Milliseconds delay, std::function<void()> call) {
  heap_.push_back({now_ + std::max(delay, Milliseconds{0}), planned_++, std::move(call)});
  std::push_heap(heap_.begin(), heap_.end());
}

bool EventQueue::run_next() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end());
  const Event event = std::move(heap_.back());
  heap_.pop_back();
  now_ = event.when;
  count_ += 1;
  event.call();
  return true;
}

void EventQueue::forget_all() {
  while (!heap_.empty()) std::exchange(heap_, {}).clear();
}

}  // namespace muster::sim
