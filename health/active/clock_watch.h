// Asks the driver once a second what slows the clocks of GPUs, in a child process: a driver that
// hangs takes only the child with it. The child is this program, not another one: it is to be
// started before any thread. One thread.
#pragma once

#include <sys/types.h>

#include <string>

#include "health/active/clock_tally.h"

namespace muster {

class ClockWatch {
 public:
  ClockWatch();
  ~ClockWatch();  // kills it
  ClockWatch(const ClockWatch&) = delete;

  // Takes what it said since; never blocks.
  void take();
  const ClockTally& tally() const { return tally_; }
  // Why it told nothing, or no more; empty: it did.
  const std::string& error() const { return error_; }

 private:
  ClockTally tally_;
  std::string error_;
  pid_t child_ = -1;
  int answers_ = -1;
};

}  // namespace muster
