// Cuts what is read bit by bit into lines, in bounded memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "scheduler/text/text.h"

namespace muster {

class LineFeed {
 public:
  // `take`: each line that is whole, without the white space at its ends; nothing: it was longer
  // than 8 KiB.
  template <class Take>
  void feed(std::string_view bytes, Take take) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      is_too_long_ = is_too_long_ || rest_.size() + part.size() > line_max;
      if (!is_too_long_) rest_ += part;
      if (end == bytes.npos) return;
      take(is_too_long_ ? std::nullopt : std::optional<std::string_view>(trimmed(rest_)));
      is_too_long_ = false;
      rest_.clear();
      bytes.remove_prefix(end + 1);
    }
  }
  // A line has begun and not ended.
  bool has_rest() const { return !rest_.empty(); }

 private:
  static constexpr std::size_t line_max = 8192;
  std::string rest_;
  bool is_too_long_ = false;
};

}  // namespace muster
