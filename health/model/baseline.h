// A node that is known to be good as one reading shows it, and the profile that the checks make of
// it. What was not read, or the node's devices do not agree about, is left out and said: what a
// profile leaves out is never judged.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/gpu_readings.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

struct BaselineNode {
  const SourceFiles& files;
  const GpuReadings* gpus = nullptr;  // null: nothing to learn of them
  HealthProfile profile{};
  std::vector<std::string> left_out{};  // "gpu.ecc: gpu3 says 0, gpu0 says 1"

  void leave_out(const std::string& key, const std::string& why) {
    left_out.push_back(key + ": " + why);
  }
  // What was read at `path`; nothing is left out and said.
  template <class T>
  std::optional<T> read(const char* key, std::string_view path, std::optional<T> value) {
    const FileReading& reading = files.reading(path);
    if (!value)
      leave_out(key, std::string(path) + ": " +
                         (reading.ok() ? "it says nothing that is known" : reading.error));
    return value;
  }
};

// What a device says of itself is not always text.
inline bool is_plain_text(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// A pattern that only the name itself fits: a set of one character each for `*` and `[`.
inline std::string literal_pattern(std::string_view name) {
  std::string pattern;
  for (const char c : name) {
    const bool is_special = c == '*' || c == '[';
    pattern += is_special ? std::string("[") + c + "]" : std::string(1, c);
  }
  return pattern;
}

}  // namespace muster
