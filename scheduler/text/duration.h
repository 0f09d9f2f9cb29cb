// Durations as job and cluster files write them; times, durations, sizes and rates in words for
// people: the only place that formats them. `now` and the time zone are inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "scheduler/text/clock.h"

namespace muster {

// `90` (seconds), `1.5`, `45s`, `1h30m`, `2d`, `500ms`, and ISO 8601 `PT15M`. nullopt for anything
// else, for negative values and beyond ten years.
std::optional<Milliseconds> parse_duration(std::string_view text);

// `1h30m`, `45s`, `500ms`: what `parse_duration` reads back as the same value.
std::string written_duration(Milliseconds duration);

Time wall_clock_now();

// `0.4s`, `42s`, `3m 07s`, `2h 05m`, `4d 03h`.
std::string elapsed_text(Milliseconds duration);
// `42s ago`; a time in the future is `in 42s`.
std::string ago_text(Time time, Time now);
// `2026-11-21T05:56:31.250Z`, for machines.
std::string utc_text(Time time);
// `2026-11-21 05:56:31` in the local time zone, for people.
std::string local_text(Time time);
// `1.5 MiB`, `12 B`.
std::string bytes_text(std::uint64_t bytes);
// `1234567` as `1.23M`; for rates.
std::string count_text(double count);

}  // namespace muster
