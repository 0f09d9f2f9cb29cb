// Where the time of steps went. The four parts add up to the whole: compute is what is none of the
// others. Plain data.
#pragma once

namespace muster {

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
