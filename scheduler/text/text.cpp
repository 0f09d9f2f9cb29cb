#include "scheduler/text/text.h"

#include <algorithm>
#include <cstdint>

namespace muster {

namespace {

// A line of a report is read by a person; a stack frame with templates has about this length.
constexpr std::size_t line_limit_bytes = 1000;

}  // namespace

std::size_t utf8_length(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = at(0);
  const std::size_t length = lead < 0x80             ? 1
                             : (lead & 0xe0) == 0xc0 ? 2
                             : (lead & 0xf0) == 0xe0 ? 3
                             : (lead & 0xf8) == 0xf0 ? 4
                                                     : 0;
  if (length == 0 || bytes.size() < length) return 0;
  if (length == 1) return 1;
  std::uint32_t code = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
    code = (code << 6) | (at(i) & 0x3fu);
  }
  constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  return code >= smallest[length] && code <= 0x10ffff && !is_surrogate ? length : 0;
}

std::string to_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    text.append(length > 0 ? bytes.substr(0, length) : "\xef\xbf\xbd");
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

std::vector<std::string> last_utf8_lines(std::string_view bytes, std::size_t count) {
  std::vector<std::string> lines;
  while (!bytes.empty() && lines.size() < count) {
    const std::size_t newline = bytes.rfind('\n');
    std::string_view line = newline == bytes.npos ? bytes : bytes.substr(newline + 1);
    bytes = newline == bytes.npos ? std::string_view() : bytes.substr(0, newline);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty()) lines.push_back(to_utf8(line.substr(0, line_limit_bytes)));
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

std::string without_controls(std::string_view text) {
  std::string shown(text);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    const bool is_c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    // U+0080 to U+009F, two bytes each: some terminals obey them too.
    const bool is_c1 = byte < 0xA0 && byte >= 0x80 && i > 0 && shown[i - 1] == '\xC2';
    if (is_c0 || is_c1) shown[i] = '?';
    if (is_c1) shown[i - 1] = '?';
  }
  return shown;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string enumerated(const std::vector<std::string>& parts, std::string_view last) {
  if (parts.size() < 2) return joined(parts);
  std::vector<std::string> first(parts.begin(), parts.end() - 1);
  return joined(first).append(last) + parts.back();
}

std::string shortened(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  std::size_t end = most_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::vector<std::string_view> words_in(std::string_view text, std::string_view between,
                                       std::size_t most) {
  std::vector<std::string_view> words;
  std::size_t begin = text.find_first_not_of(between);
  while (begin != text.npos && words.size() < most) {
    const std::size_t end = std::min(text.size(), text.find_first_of(between, begin));
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(between, end);
  }
  return words;
}

std::optional<std::string_view> value_in_lines(std::string_view text, std::string_view key,
                                               char mark) {
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    if (line.starts_with(key) && line.substr(key.size()).starts_with(mark))
      return line.substr(key.size() + 1);
  }
  return std::nullopt;
}

bool is_word_of(std::string_view text, std::string_view also) {
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           also.find(c) != also.npos;
  });
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace muster
