#include "health/fabric/text_cursor.h"

#include <algorithm>
#include <charconv>

namespace muster {

namespace {

constexpr std::string_view blanks = " \t\r";
// The longest line of a healthy tool, with every counter at its largest, is near 1,500.
constexpr std::size_t line_max = 4096;
// A text of rubbish would repeat itself for megabytes.
constexpr std::size_t complaints_max = 10;
constexpr std::size_t complaint_max = 160;

std::optional<std::uint64_t> take_digits(std::string_view& rest, int base) {
  std::uint64_t value = 0;
  const char* end_of_rest = rest.data() + rest.size();
  const auto [end, error] = std::from_chars(rest.data(), end_of_rest, value, base);
  if (error != std::errc()) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return value;
}

void complain(ToolReading& reading, std::string_view line) {
  if (reading.complaints.size() >= complaints_max) return;
  reading.complaints.emplace_back(line.substr(0, complaint_max));
}

bool is_warning(std::string_view line) {
  return line.starts_with("ibwarn:") || line.starts_with("ibpanic:") ||
         line.starts_with("ibdebug:") || line.find(": iberror: ") < 32;
}

void read_line(std::string_view line, ToolReading& reading,
               const std::function<bool(std::string_view)>& read) {
  const bool is_long = line.size() > line_max;
  if (is_long || !read(line)) {
    complain(reading, line);
    if (is_long || !is_warning(line)) ++reading.skipped_lines;
  }
}

}  // namespace

void TextCursor::skip_blanks() {
  rest_.remove_prefix(std::min(rest_.find_first_not_of(blanks), rest_.size()));
}

bool TextCursor::take(std::string_view literal) {
  skip_blanks();
  if (!rest_.starts_with(literal)) return false;
  rest_.remove_prefix(literal.size());
  return true;
}

std::string_view TextCursor::take_word() {
  skip_blanks();
  const std::string_view word = rest_.substr(0, rest_.find_first_of(blanks));
  rest_.remove_prefix(word.size());
  return word;
}

std::optional<std::uint64_t> TextCursor::take_number() {
  skip_blanks();
  return take_digits(rest_, 10);
}

std::optional<std::uint64_t> TextCursor::take_hex() {
  skip_blanks();
  if (rest_.starts_with("0x")) rest_.remove_prefix(2);
  const auto value = take_digits(rest_, 16);
  return value == std::uint64_t{0} ? std::nullopt : value;
}

std::optional<int> TextCursor::take_port() {
  const auto number = take_number();
  if (!number || *number > 254) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<std::uint64_t> TextCursor::take_guid() {
  skip_blanks();
  return rest_.starts_with("0x") ? take_hex() : std::nullopt;
}

std::optional<std::string_view> quoted_text(std::string_view text, char quote) {
  const std::size_t begin = text.find(quote);
  const std::size_t end = text.rfind(quote);
  if (begin == std::string_view::npos || begin == end) return std::nullopt;
  return trimmed(text.substr(begin + 1, end - begin - 1));
}

std::optional<int> lanes_of(std::string_view width) {
  if (!width.ends_with('x') && !width.ends_with('X')) return std::nullopt;
  TextCursor cursor(width);
  const auto lanes = cursor.take_number();
  if (!lanes || cursor.rest().size() != 1 || *lanes < 1 || *lanes > 12) return std::nullopt;
  return static_cast<int>(*lanes);
}

ToolReading read_lines(const FileReading& said, const std::function<bool(std::string_view)>& read) {
  ToolReading reading;
  reading.error = said.error;
  if (!said.ok()) return reading;
  std::string_view rest = said.text;
  reading.is_cut = !rest.empty() && rest.back() != '\n';
  while (!rest.empty()) {
    const std::string_view line = take_until(rest, '\n');
    if (!trimmed(line).empty()) read_line(line, reading, read);
  }
  return reading;
}

}  // namespace muster
