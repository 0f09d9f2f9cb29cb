// One at a time: whoever holds the lock of a file or folder. Released when the owner goes, however
// it ends, and with it the programs that it started meanwhile: they inherit the lock, so that the
// useradd of a killed command cannot work on behind the back of the next one.
#pragma once

#include <filesystem>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

// Waits for it. A path that does not exist is made a file.
Result<Fd> take_lock(const std::filesystem::path& path);

}  // namespace muster
