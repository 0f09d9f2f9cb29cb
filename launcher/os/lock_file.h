// A file whose lock makes its holder the one process of its kind. The kernel lets go when the
// holder dies, however it dies. Thread-safe.
#pragma once

#include <filesystem>
#include <optional>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

// Made where it is missing, mode 0600. Nothing: another process holds it.
Result<std::optional<Fd>> take_lock_file(const std::filesystem::path& path);

// Looking takes the lock for an instant, which can turn away a process that wants it just then.
bool is_locked(const std::filesystem::path& path);

// The file was removed, or its directory: nobody looks for its holder there any more.
bool is_unlinked(const Fd& lock);

}  // namespace muster
