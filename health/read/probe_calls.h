// What the kernel tells by calls rather than by files, as texts of lines "key value". May block as
// a read of a file may. Paths are relative to an open directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "health/model/source_files.h"

namespace muster {

// With the reason of the latest failed call.
FileReading failed_reading(int error_number);

FileReading owner_reading(int directory, const std::string& path);  // stat:
FileReading space_reading(int directory, const std::string& path);  // statvfs:
FileReading open_reading(int directory, const std::string& path);   // open:
FileReading link_reading(int directory, const std::string& path);   // …@
FileReading limit_reading(std::string_view name);                   // rlimit:
FileReading clock_reading();                                        // adjtimex:

// The value behind a key, in such a text.
std::optional<std::string_view> probe_value(std::string_view text, std::string_view key);
std::optional<std::int64_t> probe_number(std::string_view text, std::string_view key);

}  // namespace muster
