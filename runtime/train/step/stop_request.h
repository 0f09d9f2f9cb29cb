// The wish to stop that arrives as SIGTERM: asked for at the end of a step, agreed with the other
// ranks, answered by a checkpoint and exit code 128 + 15.
//
// There is no signal handler. SIGTERM stays blocked and is looked for among the pending signals,
// because oneDNN's AVX-512 matrix product (2.6) points the stack pointer into a heap buffer while
// it works: a handler that interrupts it there writes its frame over the heap.
#pragma once

#include <chrono>
#include <string>
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

 private:
  std::jthread watcher_;
};

// The end of this process's lease (runtime/protocol/lease.h): from then on another attempt may run,
// and this one must not write. Its agent or the agent's keeper kills it in time; where both stand
// still, with the whole host or by themselves, the rank is the first that can know it.

// Holds the lease at `path` for this process; false, and none is held, when there is none there.
// Called before there are other threads that look.
bool hold_lease(const std::string& path);

// True once the lease that is held is over; never without one. Any thread.
bool lease_is_over();

inline constexpr const char* lease_complaint =
    "the lease of this process has expired: its agent stood still, and another attempt may run: it "
    "must not write";

// While it lives, the process ends as soon as its lease is over.
class EndWithLease {
 public:
  EndWithLease();

 private:
  std::jthread watcher_;
};

}  // namespace muster
