// The wish to stop that arrives as SIGTERM. The handler sets a flag; the training loop asks for it
// at the end of a step, agrees with the other ranks, saves a checkpoint and ends with exit code 128
// + 15.
#pragma once

namespace muster {

inline constexpr int exit_after_sigterm = 143;

void install_stop_handler();
bool stop_requested();

}  // namespace muster
