// Ctrl-C and SIGTERM while a job is followed: counted instead of ending the process, for as long as
// this object lives. One at a time, main thread.
#pragma once

#include <csignal>

namespace muster {

class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // True once for each of them since the last call.
  bool take();
  // There was a SIGTERM: who sends it wants this process gone, and no question.
  bool is_terminated() const;

 private:
  struct sigaction before_ {};
  struct sigaction before_termination_ {};
};

// Asks on the terminal what Ctrl-C meant. A second Ctrl-C, or the end of input, means detach.
enum class InterruptChoice { go_on, detach, cancel };
InterruptChoice ask_what_was_meant(InterruptWatch& watch);

}  // namespace muster
