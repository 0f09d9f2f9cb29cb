// Agents of one host measure one at a time, and so do tests of that which run side by side.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include "launcher/os/fd.h"

namespace muster {

// From the first call to the end of this process.
inline void measure_alone() {
  static const Fd turn = [] {
    Fd file(::open("/tmp/muster-test-measures", O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (file) ::flock(file.get(), LOCK_EX);
    return file;
  }();
}

}  // namespace muster
