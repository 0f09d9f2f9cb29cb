// Time that the test moves.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "launcher/os/timers.h"

namespace muster {

class HandTimers : public Timers {
 public:
  SteadyTime now() const override { return SteadyTime{at_}; }
  Time wall_now() const override { return from_ms(at_.count()); }
  RawTime raw_now() const override { return RawTime{at_.count() * 1000}; }
  std::unique_ptr<Alarm> after(Milliseconds delay, std::function<void()> call) override {
    return std::make_unique<Entry>(*this, plan(delay, std::move(call)));
  }
  void post(std::function<void()> call) override { plan(Milliseconds{0}, std::move(call)); }
  bool is_idle() const { return due_.empty(); }
  using Key = std::pair<Milliseconds, int>;
  Key plan(Milliseconds delay, std::function<void()> call) {
    const Key key{at_ + delay, next_++};
    due_[key] = std::move(call);
    return key;
  }
  void pass(Milliseconds duration) {
    const Milliseconds end = at_ + duration;
    while (!due_.empty() && due_.begin()->first.first <= end) {
      at_ = due_.begin()->first.first;
      const auto call = std::move(due_.begin()->second);
      due_.erase(due_.begin());
      call();
    }
    at_ = end;
  }

 private:
  struct Entry : Alarm {
    Entry(HandTimers& of, Key which) : timers(of), key(which) {}
    ~Entry() override { timers.due_.erase(key); }
    HandTimers& timers;
    Key key;
  };
  Milliseconds at_{1'000'000};
  int next_ = 0;
  std::map<Key, std::function<void()>> due_;
};

}  // namespace muster
