// The wish to stop that arrives as SIGTERM: asked for at the end of a step, agreed with the other
// ranks, answered by a checkpoint and exit code 128 + 15.
//
// There is no signal handler. SIGTERM stays blocked and is looked for among the pending signals,
// because oneDNN's AVX-512 matrix product (2.6) points the stack pointer into a heap buffer while
// it works: a handler that interrupts it there writes its frame over the heap.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace muster {

inline constexpr int exit_after_sigterm = 143;

// Blocks SIGTERM in this thread and all that it starts; called before any other thread exists.
void hold_back_sigterm();

// True once SIGTERM has arrived.
bool stop_requested();

// Sleeps so long, or until SIGTERM has arrived.
void sleep_unless_stopped(std::chrono::milliseconds duration);

// While this lives, SIGTERM ends the process at once: before the first step there is nothing to
// save, and reading, joining or waiting for a network may take for ever. Needs the signal held
// back.
class EndOnSigterm {
 public:
  EndOnSigterm();
  ~EndOnSigterm();
  EndOnSigterm(const EndOnSigterm&) = delete;
  EndOnSigterm& operator=(const EndOnSigterm&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::thread watcher_;
};

}  // namespace muster
