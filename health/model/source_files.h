// What the files of a node said, read at one time: a small tree of texts that checks are computed
// from. A host's own, or a recorded one; paths are those of the host ("/sys/class/infiniband").
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace muster {

// A file's text, or why there is none.
struct FileReading {
  std::string text;
  std::string error;  // empty: it was read; "No such file or directory", "no answer within 5 s"
  bool is_missing = false;
  bool ok() const { return error.empty(); }
  friend bool operator==(const FileReading&, const FileReading&) = default;
};

class SourceFiles {
 public:
  void add(std::string path, FileReading reading);
  void add(std::string path, std::string text) {
    add(std::move(path), FileReading{std::move(text), {}, false});
  }

  // Of a file that nobody asked for: missing.
  const FileReading& reading(std::string_view path) const;
  // The text without the white space at its ends; nothing when it could not be read.
  std::optional<std::string_view> text(std::string_view path) const;
  // As a whole number, decimal or 0x…; nothing when it is none.
  std::optional<std::int64_t> number(std::string_view path) const;
  // Names directly below a directory of which anything was read, sorted.
  std::vector<std::string> names_below(std::string_view directory) const;

  const std::map<std::string, FileReading, std::less<>>& all() const { return files_; }
  friend bool operator==(const SourceFiles&, const SourceFiles&) = default;

 private:
  std::map<std::string, FileReading, std::less<>> files_;
};

// The whole of a text as a number of the type, without white space; nothing when it is none.
template <class Number>
std::optional<Number> whole_number(std::string_view text, int base = 10) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}
// Decimal, or 0x….
std::optional<std::int64_t> decimal_or_hex(std::string_view text);

std::optional<std::chrono::seconds> uptime_of(const SourceFiles& files);
std::string boot_id_of(const SourceFiles& files);

// The words of a source ("stat:/dev/shm/nccl-*", "/sys/class/net/*/device@"), taken apart.

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
