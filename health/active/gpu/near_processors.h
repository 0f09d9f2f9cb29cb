// The processors that a GPU is attached to: memory near them is what it copies fastest.
#pragma once

namespace muster {

// Keeps this thread, and what it allocates, near the GPU; where the system does not say or let,
// nothing changes.
void stay_near_gpu(int gpu);

}  // namespace muster
