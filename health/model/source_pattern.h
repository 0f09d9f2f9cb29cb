// The words of a source ("stat:/dev/shm/nccl-*", "/sys/class/net/*/device@"), taken apart.
#pragma once

#include <string_view>

namespace muster {

struct SourcePattern {
  std::string_view probe;  // "stat:"; empty: the file's text
  std::string_view path;   // without the "@" of a link; of a probe that has no path, its argument
  bool is_link = false;
};

SourcePattern source_pattern_of(std::string_view source);
// Whether a component of a path has stars or sets.
bool is_pattern(std::string_view component);
// The directory above the first component that is a pattern; the whole path when none is.
std::string_view fixed_part(std::string_view path);
// Whether reading the source reads `path`, or lists it for a star.
bool covers(std::string_view source, std::string_view path);

}  // namespace muster
