// Time that passes: SpentTime adds what lies between its construction and its end to a sum, in
// seconds; a Stopwatch says how long it has lived.
#pragma once

#include <chrono>

namespace muster {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class SpentTime {
 public:
  explicit SpentTime(double& sum_s) : sum_s_(sum_s) {}
  ~SpentTime() { sum_s_ += watch_.seconds(); }
  SpentTime(const SpentTime&) = delete;
  SpentTime& operator=(const SpentTime&) = delete;

 private:
  double& sum_s_;
  Stopwatch watch_;
};

// Where the time of steps went. The four parts add up to the whole: compute is what is none of the
// others. Plain data.
struct TimeSplit {
  double total_s = 0;
  double communication_wait_s = 0;  // with other ranks and waiting for them
  double data_wait_s = 0;           // for samples
  double checkpoint_stall_s = 0;    // training stood still for a checkpoint

  double compute_s() const {
    return total_s - communication_wait_s - data_wait_s - checkpoint_stall_s;
  }
  TimeSplit& operator+=(const TimeSplit& other) {
    total_s += other.total_s;
    communication_wait_s += other.communication_wait_s;
    data_wait_s += other.data_wait_s;
    checkpoint_stall_s += other.checkpoint_stall_s;
    return *this;
  }
};

}  // namespace muster
