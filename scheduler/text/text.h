// Small things that are done to text. Pure, any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The parts, texts or ids, with `between` between them. Empty ones at the front count as none.
template <class Parts>
std::string joined(const Parts& parts, std::string_view between = ", ") {
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += between;
    if constexpr (requires { part.value; }) {
      text += part.value;
    } else {
      text += part;
    }
  }
  return text;
}

inline constexpr std::string_view white_space = " \t\r\n";

// Without the white space at its ends.
inline std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(white_space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(white_space) - begin + 1);
}

// Takes what stands before the next `end`, or all, off the front, and that `end` with it.
inline std::string_view take_until(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(part.size() < text.size() ? part.size() + 1 : part.size());
  return part;
}

// The words between the white space, or between other characters; the first `most` of them.
std::vector<std::string_view> words_in(std::string_view text,
                                       std::string_view between = white_space,
                                       std::size_t most = std::string_view::npos);

// What stands behind the key and the mark in the first line that begins with them: "KEY=text".
std::optional<std::string_view> value_in_lines(std::string_view text, std::string_view key,
                                               char mark);

// Each `from`, which is not empty, becomes `to`; not again in what was put in.
std::string replaced(std::string text, std::string_view from, std::string_view to);

// Whether a text is letters, digits and characters of `also`, and not empty.
bool is_word_of(std::string_view text, std::string_view also);

// Whether a text holds another, anywhere in it.
inline bool mentions(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

// Not empty, and each character is one of these.
inline bool is_made_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == text.npos;
}

// "a, b or c", with " or " before the last.
std::string enumerated(const std::vector<std::string>& parts, std::string_view last);

// At most so many bytes, whole characters of UTF-8, with "..." where something is left out.
std::string shortened(std::string_view text, std::size_t most_bytes);

// Small letters for capital ones: of ASCII, whatever the locale.
std::string lower_case(std::string_view text);

// `text` with ? for every control character but the line feed and the tabulator: for sentences on a
// terminal that quote names of files and texts in them, which anybody may have written.
std::string without_controls(std::string_view text);

// Length of the valid UTF-8 sequence at the start of `bytes` (not empty); 0 if there is none.
std::size_t utf8_length(std::string_view bytes);

// What is not UTF-8 becomes U+FFFD: bytes that a program wrote, for JSON.
std::string to_utf8(std::string_view bytes);

// The last `count` non-empty lines of `bytes`, oldest first, each cut to a readable length.
std::vector<std::string> last_utf8_lines(std::string_view bytes, std::size_t count);

}  // namespace muster
