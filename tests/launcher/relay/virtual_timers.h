// Time that passes when the test says so.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "launcher/os/timers.h"

namespace muster {

class VirtualTimers final : public Timers {
 public:
  SteadyTime now() const override { return now_; }
  Time wall_now() const override { return from_ms(0); }
  RawTime raw_now() const override { return RawTime{0}; }
  std::unique_ptr<Alarm> after(Milliseconds delay, std::function<void()> call) override {
    auto alive = std::make_shared<bool>(true);
    plan(delay, [weak = std::weak_ptr(alive), call = std::move(call)] {
      if (!weak.expired()) call();
    });
    return std::make_unique<Held>(std::move(alive));
  }
  void post(std::function<void()> call) override { plan(Milliseconds{0}, std::move(call)); }

  void plan(Milliseconds delay, std::function<void()> call) {
    events_.emplace(std::pair(now_ + delay, number_++), std::move(call));
  }
  void pass(Milliseconds time) {
    const SteadyTime end = now_ + time;
    while (!events_.empty() && events_.begin()->first.first <= end) {
      const auto next = events_.extract(events_.begin());
      now_ = next.key().first;
      next.mapped()();
    }
    now_ = end;
  }

 private:
  struct Held : Alarm {
    explicit Held(std::shared_ptr<bool> token) : alive(std::move(token)) {}
    std::shared_ptr<bool> alive;
  };

  SteadyTime now_{std::chrono::hours(1)};
  int number_ = 0;
  std::map<std::pair<SteadyTime, int>, std::function<void()>> events_;
};

}  // namespace muster
