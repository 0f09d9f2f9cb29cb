// Virtual time: what happens next, in order; events of one moment in the order they were planned.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/text/clock.h"

namespace muster::sim {

class EventQueue {
 public:
  Milliseconds now() const { return now_; }  // since the simulation began
  Time wall_now() const { return from_ms(1'700'000'000'000) + now_; }
  std::uint64_t count() const { return count_; }

  void after(Milliseconds delay, std::function<void()> call);
  bool run_next();  // false: nothing is planned
  // Destroys what is planned, and what that plans, while what it refers to is still there.
  void forget_all();

 private:
  struct Event {
    Milliseconds when;
    std::uint64_t number;
    std::function<void()> call;
    bool operator<(const Event& other) const {  // the heap's top is the earliest
      return when != other.when ? when > other.when : number > other.number;
    }
  };

  std::vector<Event> heap_;
  Milliseconds now_{0};
  std::uint64_t planned_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace muster::sim
