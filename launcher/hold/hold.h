// Process 1 of a container: starts what the agent asks for, tells how it ended, and ends with the
// agent's socket. Needs nothing of the image; one thread; returns the exit code.
#pragma once

namespace muster {

int hold(const char* socket_path);

}  // namespace muster
