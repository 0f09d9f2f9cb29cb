#include "runtime/tokenize/word_splitter.h"

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/tokenize/character_table.h"

namespace muster {
namespace {

constexpr std::uint32_t plane_characters = 0x10000;
constexpr std::uint32_t malformed = 0xFFFFFFFF;

bool is_space(std::uint32_t code) {
  return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool lies_in(std::uint32_t code, std::span<const CharacterRange> ranges) {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), code,
      [](std::uint32_t value, const CharacterRange& range) { return value < range.first; });
  return after != ranges.begin() && code <= std::prev(after)->last;
}

CharacterClass class_by_search(std::uint32_t code) {
  if (is_space(code)) return CharacterClass::space;
  if (code < 128) {
    const std::uint32_t lower = code | 0x20;
    if (lower >= 'a' && lower <= 'z') return CharacterClass::letter;
    return code >= '0' && code <= '9' ? CharacterClass::number : CharacterClass::other;
  }
  if (lies_in(code, letter_ranges())) return CharacterClass::letter;
  return lies_in(code, number_ranges()) ? CharacterClass::number : CharacterClass::other;
}

// The plane that nearly all text is written in, looked up instead of searched.
const std::vector<CharacterClass>& classes_of_first_plane() {
  static const std::vector<CharacterClass> classes = [] {
    std::vector<CharacterClass> all(plane_characters);
    for (std::uint32_t code = 0; code < plane_characters; ++code) all[code] = class_by_search(code);
    return all;
  }();
  return classes;
}

struct Decoded {
  std::uint32_t code = malformed;
  std::size_t bytes = 1;
};

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
Decoded decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const std::uint32_t lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 1) return {lead, 1};
  if (length == 0) return {};
  std::uint32_t code = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || (code >= 0xD800 && code <= 0xDFFF) || code > 0x10FFFF) return {};
  return {code, length};
}

}  // namespace

CharacterClass character_class(std::uint32_t code_point) {
  if (code_point < plane_characters) return classes_of_first_plane()[code_point];
  return code_point == malformed ? CharacterClass::other : class_by_search(code_point);
}

WordSplitter::Character WordSplitter::character_at(std::size_t at) const {
  static const CharacterClass* const first_plane = classes_of_first_plane().data();
  if (at >= text_.size()) return {};
  const auto byte = static_cast<unsigned char>(text_[at]);
  if (byte < 0x80) return {first_plane[byte], 1};
  const Decoded decoded = decode(text_, at);
  return {character_class(decoded.code), decoded.bytes};
}

std::size_t WordSplitter::contraction_at(std::size_t at) const {
  if (text_[at] != '\'') return 0;
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text_.substr(at, ending.size()) == ending) return ending.size();
  }
  return 0;
}

std::size_t WordSplitter::end_of_run(std::size_t at, CharacterClass kind) const {
  for (Character next = character_at(at); next.bytes > 0 && next.kind == kind;
       next = character_at(at)) {
    at += next.bytes;
  }
  return at;
}

// All white space, but the last character of it when something follows that could take it along.
std::size_t WordSplitter::end_of_spaces(std::size_t at) const {
  std::size_t last = at;
  std::size_t end = at;
  for (Character next = character_at(end); next.bytes > 0 && next.kind == CharacterClass::space;
       next = character_at(end)) {
    last = end;
    end += next.bytes;
  }
  return end < text_.size() && last > at ? last : end;
}

std::string_view WordSplitter::next() {
  if (at_ >= text_.size()) return {};
  const std::size_t begin = at_;
  if (const std::size_t bytes = contraction_at(begin); bytes > 0) {
    at_ += bytes;
    return text_.substr(begin, bytes);
  }
  const std::size_t after_blank = begin + (text_[begin] == ' ' ? 1 : 0);
  const Character first = character_at(after_blank);
  at_ = first.bytes > 0 && first.kind != CharacterClass::space
            ? end_of_run(after_blank + first.bytes, first.kind)
            : end_of_spaces(begin);
  return text_.substr(begin, at_ - begin);
}

std::size_t last_word_border(std::string_view text) {
  for (std::size_t at = text.size(); at-- > 1;) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x80 || !is_space(byte)) continue;
    std::size_t before = at - 1;  // begin of the character before, if it is well formed
    while (before > 0 && at - before < 4 && (text[before] & 0xC0) == 0x80) --before;
    const Decoded decoded = decode(text, before);
    const bool whole = decoded.code != malformed && before + decoded.bytes == at;
    if (whole && character_class(decoded.code) != CharacterClass::space) return at;
  }
  return 0;
}

}  // namespace muster
