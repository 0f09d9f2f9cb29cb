// Durations as job and cluster files write them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "scheduler/model/clock.h"

namespace muster {

// `90` (seconds), `1.5`, `45s`, `1h30m`, `2d`, `500ms`, and ISO 8601 `PT15M`. nullopt for anything
// else, for negative values and beyond ten years.
std::optional<Milliseconds> parse_duration(std::string_view text);

// `1h30m`, `45s`, `500ms`: what `parse_duration` reads back as the same value.
std::string written_duration(Milliseconds duration);

}  // namespace muster
