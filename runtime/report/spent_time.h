// Time that passes: SpentTime adds what lies between its construction and its end to a sum, in
// seconds; a Stopwatch says how long it has lived.
#pragma once

#include <chrono>

namespace muster {

class SpentTime {
 public:
  explicit SpentTime(double& sum_s) : sum_s_(sum_s) {}
  ~SpentTime() {
    sum_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  SpentTime(const SpentTime&) = delete;
  SpentTime& operator=(const SpentTime&) = delete;

 private:
  double& sum_s_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace muster
