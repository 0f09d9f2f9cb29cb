// Takes the text of a fabric tool apart from left to right. Node descriptions hold any bytes, so
// names are found by the quotes around them and never by what they may not contain.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "health/fabric/fabric.h"
#include "health/model/source_files.h"
#include "scheduler/text/text.h"

namespace muster {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : rest_(text) {}

  // Each skips blanks, and takes nothing when what comes is something else.
  bool take(std::string_view literal);
  std::string_view take_word();  // up to a blank
  std::optional<std::uint64_t> take_number();
  std::optional<std::uint64_t> take_hex();   // with 0x or without; never 0: no GUID is
  std::optional<int> take_port();            // 0 to 254
  std::optional<std::uint64_t> take_guid();  // "0x…"

  std::string_view rest() const { return rest_; }

 private:
  void skip_blanks();
  std::string_view rest_;
};

// What stands between the first and the last `quote`, without the blanks at its ends.
std::optional<std::string_view> quoted_text(std::string_view text, char quote);
// "4x", "4X": 4.
std::optional<int> lanes_of(std::string_view width);

// Gives each line that is not blank to `read`, which says whether it understood it; counts those
// that were not, lines that are too long, and a text that ends within a line. A tool's own warnings
// are complaints, no lines of its answer.
ToolReading read_lines(const FileReading& said, const std::function<bool(std::string_view)>& read);

}  // namespace muster
