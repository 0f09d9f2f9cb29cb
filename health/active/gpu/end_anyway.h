// The only line of a probe that may not return from a driver or a library: what it says first is
// what it says, and at a moment the process ends although some call hangs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "health/benchmark/tools/sample_line.h"

namespace muster {

// Any thread.
class OnlyLine {
 public:
  explicit OnlyLine(std::string metric) : metric_(std::move(metric)) {}

  void value(double number) {
    if (is_first()) print_probe_value(metric_, "", number);
  }
  void error(std::string_view why) {
    if (is_first()) print_probe_error(metric_, "", why);
  }

 private:
  bool is_first() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(is_said_, true);
  }

  std::string metric_;
  std::mutex mutex_;
  bool is_said_ = false;
};

// A thread of its own, until it goes.
class EndAnyway {
 public:
  EndAnyway(std::chrono::steady_clock::time_point at, OnlyLine& line, std::string why)
      : thread_([this, at, &line, why = std::move(why)] {
          std::unique_lock lock(mutex_);
          if (over_.wait_until(lock, at, [this] { return is_over_; })) return;
          line.error(why);
          std::_Exit(0);  // what it says was said
        }) {}
  ~EndAnyway() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_one();
    thread_.join();
  }
  EndAnyway(const EndAnyway&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace muster
