// Ctrl-C while a job is followed: counted instead of ending the process, for as long as this object
// lives. One at a time, main thread.
#pragma once

#include <csignal>

namespace muster {

class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // True once for each Ctrl-C since the last call.
  bool take();

 private:
  struct sigaction before_ {};
};

// Asks on the terminal what Ctrl-C meant. A second Ctrl-C, or the end of input, means detach.
enum class InterruptChoice { go_on, detach, cancel };
InterruptChoice ask_what_was_meant(InterruptWatch& watch);

}  // namespace muster
