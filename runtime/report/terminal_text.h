// Sentences for a terminal: they quote names of files and texts in them, which anybody may have
// written. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// `text` with ? for every control character but the line feed and the tabulator.
std::string without_controls(std::string_view text);

}  // namespace muster
