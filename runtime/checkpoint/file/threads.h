// Saving gives way to computing: where no core is free, training goes first.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

namespace muster {

// Puts this thread ten steps of niceness behind the process's first one.
inline void step_back() {
  const int first = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), first + 10);
}

}  // namespace muster
