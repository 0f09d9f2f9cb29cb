#include "templates/yaml/yaml_text.h"

#include <algorithm>
#include <cstdio>

#include "templates/yaml/reader.h"

namespace muster {
namespace {

// More unclosed brackets than any shell script in a `command` has; the parser keeps one token for
// each of them before it can give up.
constexpr int max_open_brackets = 1000;

std::string control_character_message(unsigned char byte) {
  char code[16];
  std::snprintf(code, sizeof code, "U+%04X", byte);
  return byte == 0 ? "the file contains a NUL byte; it is not a YAML text"
                   : std::string("the file contains the control character ") + code;
}

std::string fault_at(std::string_view rest, std::size_t length) {
  const auto byte = static_cast<unsigned char>(rest.front());
  const bool control = byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r';
  if (control || byte == 0x7F) return control_character_message(byte);
  if (length == 0) return "the file is not UTF-8 text";
  return "";
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Past a tag, an anchor and the blanks around them.
std::size_t past_properties(std::string_view text, std::size_t at) {
  for (bool in_property = false; at < text.size(); ++at) {
    const bool blank = is_blank(text[at]);
    if (!blank && !in_property && text[at] != '!' && text[at] != '&') break;
    in_property = !blank;
  }
  return at;
}

bool is_key_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '$';
}

}  // namespace

Place place_of(const std::shared_ptr<const Source>& source, std::size_t offset) {
  const std::string_view before = std::string_view(source->text).substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? offset : offset - newline - 1;
  return Place{source, static_cast<int>(line), static_cast<int>(column) + 1};
}

std::optional<QuotedText> quoted_text_at(std::string_view text, std::size_t at) {
  at = past_properties(text, at);
  if (at >= text.size() || (text[at] != '"' && text[at] != '\'')) return std::nullopt;
  const char quote = text[at];
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    const bool doubled = quote == '\'' && text.substr(i, 2) == "''";
    const bool escaped = quote == '"' && text[i] == '\\';
    if (doubled || escaped) {
      ++i;
    } else if (text[i] == quote) {
      return QuotedText{at, i + 1, true};
    }
  }
  return QuotedText{at, text.size(), false};
}

std::string key_within(std::string_view text) {
  for (std::size_t line = text.find('\n'); line != text.npos; line = text.find('\n', line + 1)) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t", line + 1), text.size());
    std::size_t end = begin;
    while (end < text.size() && is_key_character(text[end])) ++end;
    const bool is_key = end > begin && end < text.size() && text[end] == ':' &&
                        (end + 1 == text.size() || is_blank(text[end + 1]));
    if (is_key) return std::string(text.substr(begin, end - begin));
  }
  return "";
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  return text.starts_with(mark) ? text.substr(mark.size()) : text;
}

std::size_t utf8_length(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (at(0) < 0x80) return 1;
  const std::size_t length = at(0) >= 0xF0 ? 4 : at(0) >= 0xE0 ? 3 : 2;
  if (at(0) < 0xC2 || at(0) > 0xF4 || bytes.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (at(0) == 0xE0 && at(1) < 0xA0) || (at(0) == 0xF0 && at(1) < 0x90);
  const bool surrogate = at(0) == 0xED && at(1) > 0x9F;
  const bool beyond = at(0) == 0xF4 && at(1) > 0x8F;
  return overlong || surrogate || beyond ? 0 : length;
}

bool check_yaml_text(const std::shared_ptr<const Source>& source, FindingList& findings) {
  const std::string_view text = source->text;
  if (text.size() > max_file_bytes) {
    const std::string limit = std::to_string(max_file_bytes >> 20) + " MiB";
    findings.add(Severity::error, Place{source, 0, 0}, "", "the file is larger than " + limit);
    return false;
  }
  int open = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    std::string fault = fault_at(text.substr(at), length);
    if (text[at] == '[' || text[at] == '{') ++open;
    if (text[at] == ']' || text[at] == '}') --open;
    if (open > max_open_brackets) fault = "brackets are nested too deeply";
    if (!fault.empty()) {
      findings.add(Severity::error, place_of(source, at), "", fault);
      return false;
    }
    at += length;
  }
  return true;
}

}  // namespace muster
