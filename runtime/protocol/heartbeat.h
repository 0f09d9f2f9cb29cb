// The heartbeat file: how a rank says which step it has finished.
//
// Format: the step as decimal text and "\n" at offset 0, rewritten in place with one small pwrite.
// A step that goes back after a resume may leave older bytes behind the first "\n"; readers take
// the first line only. Nothing is fsync'd: the file matters only while the machine is up. One
// writer owns one open file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/protocol/descriptor.h"

namespace muster {

class HeartbeatFile {
 public:
  // Opens or creates `path`; empty: writes nowhere. A heartbeat is an aid, never a reason to stop:
  // failed() tells, beat() is silent.
  explicit HeartbeatFile(const std::string& path);

  void beat(std::uint64_t step);
  bool failed() const { return failed_; }

 private:
  Descriptor fd_;
  bool failed_ = false;
};

// The step in the text of a heartbeat file, or none when it is empty, torn or not a number.
std::optional<std::uint64_t> parse_heartbeat(std::string_view text);

// Reads the file at `path`; none when there is no readable heartbeat yet.
std::optional<std::uint64_t> read_heartbeat(const std::string& path);

// Of a program that writes no line end: what it wrote may be half a number, and counts when it is
// the same as at the look before. `seen` is what the file held then, and becomes what it holds.
std::optional<std::uint64_t> read_heartbeat(const std::string& path, std::string& seen);

}  // namespace muster
