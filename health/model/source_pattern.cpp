#include "health/model/source_pattern.h"

#include <algorithm>

#include "health/model/profile.h"
#include "health/name_pattern.h"

namespace muster {

namespace {

// The first component, with its slash.
std::string_view first_component(std::string_view path) {
  return path.substr(0, path.find('/', 1));
}

}  // namespace

SourcePattern source_pattern_of(std::string_view source) {
  SourcePattern pattern;
  const std::size_t colon = source.starts_with('/') ? source.npos : source.find(':');
  if (colon != source.npos) {
    pattern.probe = source.substr(0, colon + 1);
    source.remove_prefix(colon + 1);
  }
  pattern.is_link = pattern.probe.empty() && source.ends_with('@');
  if (pattern.is_link) source.remove_suffix(1);
  pattern.path = source;
  return pattern;
}

bool is_pattern(std::string_view component) {
  return component.find_first_of("*[") != component.npos;
}

std::string_view fixed_part(std::string_view path) {
  std::size_t size = 0;
  while (size < path.size()) {
    const std::string_view component = first_component(path.substr(size));
    if (is_pattern(component)) return size == 0 ? std::string_view("/") : path.substr(0, size);
    size += component.size();
  }
  return path;
}

bool covers(std::string_view source, std::string_view path) {
  const SourcePattern asked = source_pattern_of(source);
  const SourcePattern read = source_pattern_of(path);
  std::string_view asked_rest = asked.path == "/" ? std::string_view() : asked.path;
  std::string_view read_rest = read.path == "/" ? std::string_view() : read.path;
  while (!asked_rest.empty() && !read_rest.empty()) {
    const std::string_view pattern = first_component(asked_rest);
    const std::string_view name = first_component(read_rest);
    if (!fits_pattern(pattern, name)) return false;
    asked_rest.remove_prefix(pattern.size());
    read_rest.remove_prefix(name.size());
  }
  if (!read_rest.empty()) return false;
  if (asked_rest.empty()) return asked.probe == read.probe && asked.is_link == read.is_link;
  return read.probe.empty() && !read.is_link && is_pattern(first_component(asked_rest));
}

}  // namespace muster
