// Opening what a person or a program calls a file. A FIFO would be waited for as long as nobody
// writes to it, a device may never end: both are refused at once, and named. Thread-safe.
#pragma once

#include <string>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

// To read. The Error names the path and what is there instead; errno says why.
Result<Fd> open_regular_file(const std::string& path);

}  // namespace muster
