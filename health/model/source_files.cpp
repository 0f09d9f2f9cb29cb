#include "health/model/source_files.h"

#include <algorithm>

#include "scheduler/text/pattern.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// The first component, with its slash.
std::string_view first_component(std::string_view path) {
  return path.substr(0, path.find('/', 1));
}

}  // namespace

void SourceFiles::add(std::string path, FileReading reading) {
  files_.insert_or_assign(std::move(path), std::move(reading));
}

const FileReading& SourceFiles::reading(std::string_view path) const {
  static const FileReading missing{{}, "No such file or directory", true};
  const auto found = files_.find(path);
  return found == files_.end() ? missing : found->second;
}

std::optional<std::string_view> SourceFiles::text(std::string_view path) const {
  const FileReading& read = reading(path);
  if (!read.ok()) return std::nullopt;
  return trimmed(read.text);
}

std::optional<std::int64_t> SourceFiles::number(std::string_view path) const {
  const auto said = text(path);
  return said ? decimal_or_hex(*said) : std::nullopt;
}

std::vector<std::string> SourceFiles::names_below(std::string_view directory) const {
  const std::string prefix = std::string(directory) + "/";
  std::vector<std::string> names;
  for (auto at = files_.lower_bound(prefix); at != files_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    const std::string_view rest = std::string_view(at->first).substr(prefix.size());
    const std::string name(rest.substr(0, rest.find('/')));
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

std::optional<std::int64_t> decimal_or_hex(std::string_view text) {
  const bool is_hex = text.starts_with("0x");
  return whole_number<std::int64_t>(text.substr(is_hex ? 2 : 0), is_hex ? 16 : 10);
}

std::optional<std::chrono::seconds> uptime_of(const SourceFiles& files) {
  const auto text = files.text("/proc/uptime");
  if (!text) return std::nullopt;
  const auto whole = whole_number<std::int64_t>(text->substr(0, text->find_first_of(". ")));
  return whole && *whole >= 0 ? std::optional(std::chrono::seconds(*whole)) : std::nullopt;
}

std::string boot_id_of(const SourceFiles& files) {
  return std::string(files.text("/proc/sys/kernel/random/boot_id").value_or(""));
}

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
