// Files opened, read, replaced and locked as a whole. Thread-safe; false leaves errno.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

enum class Durable { in_cache, on_disk };  // outlives the process; outlives a power cut

// A reader, and whoever comes after a crash, sees the old content or the new one. Writers at the
// same time do not mix, the last one wins. The file's mode becomes `mode`.
bool replace_file(const std::filesystem::path& path, std::string_view bytes, mode_t mode,
                  Durable durable);

// From the start to the end, whatever size the system says it has (/proc: none).
bool read_whole(int fd, std::string& out);
// Empty when it cannot be read.
std::string text_of_file(const std::filesystem::path& path);
std::string content_of(const Fd& file);

// A file without a name, to be read from its start: it cannot block the way pipes do. None: errno
// says why.
Fd memory_file(std::string_view text = {});

// To read what a person or a program calls a file. A FIFO would be waited for as long as nobody
// writes to it, a device may never end: both are refused at once. The Error names the path and what
// is there instead; errno says why.
Result<Fd> open_regular_file(const std::string& path);

// A file whose lock makes its holder the one process of its kind. The kernel lets go when the
// holder dies, however it dies.

// Made where it is missing, mode 0600. Nothing: another process holds it.
Result<std::optional<Fd>> take_lock_file(const std::filesystem::path& path);

// Looking takes the lock for an instant, which can turn away a process that wants it just then.
bool is_locked(const std::filesystem::path& path);

// The file was removed, or its directory: nobody looks for its holder there any more.
bool is_unlinked(const Fd& lock);

}  // namespace muster
