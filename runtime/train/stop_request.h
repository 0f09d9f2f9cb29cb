// The wish to stop that arrives as SIGTERM: asked for at the end of a step, agreed with the other
// ranks, answered by a checkpoint and exit code 128 + 15.
//
// There is no signal handler. SIGTERM stays blocked and is looked for among the pending signals,
// because oneDNN's AVX-512 matrix product (2.6) points the stack pointer into a heap buffer while
// it works: a handler that interrupts it there writes its frame over the heap.
#pragma once

namespace muster {

inline constexpr int exit_after_sigterm = 143;

// Blocks SIGTERM in this thread and all that it starts; called before any other thread exists.
void hold_back_sigterm();

// True once SIGTERM has arrived.
bool stop_requested();

}  // namespace muster
