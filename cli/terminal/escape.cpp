#include "cli/terminal/escape.h"

#include <algorithm>
#include <cstdint>

#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr const char* replacement = "\xEF\xBF\xBD";

// Length that a UTF-8 sequence starting with `lead` would have; 0 for a byte that starts none.
std::size_t expected_length(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return lead < 0x80 ? 1 : 0;
}

// U+0080 … U+009F: control characters in two bytes; some terminals obey them.
bool is_c1(std::string_view character) {
  return character.size() == 2 && character[0] == '\xC2' &&
         static_cast<unsigned char>(character[1]) < 0xA0;
}

// U+202A … U+202E, U+2066 … U+2069: they make the text after them read in another order.
bool turns_direction(std::string_view character) {
  if (character.size() != 3 || character.substr(0, 1) != "\xE2") return false;
  const auto second = static_cast<unsigned char>(character[1]);
  const auto third = static_cast<unsigned char>(character[2]);
  return (second == 0x80 && third >= 0xAA && third <= 0xAE) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

// Off the front of a text that is not empty: a byte where it is not UTF-8.
std::string_view take_character(std::string_view& text) {
  const std::string_view character = text.substr(0, std::max<std::size_t>(1, utf8_length(text)));
  text.remove_prefix(character.size());
  return character;
}

std::uint32_t code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  switch (character.size()) {
    case 2:
      return (byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
    case 3:
      return (byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
    case 4:
      return (byte(0) & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 |
             (byte(3) & 0x3Fu);
    default:
      return byte(0);
  }
}

// The blocks whose characters take two columns, and those that take none, after Unicode's
// EastAsianWidth; a rough table is enough for aligning columns.
int column_count(std::uint32_t point) {
  if (point >= 0x0300 && point <= 0x036F) return 0;
  if (point == 0x200B || (point >= 0xFE00 && point <= 0xFE0F)) return 0;
  const bool wide = (point >= 0x1100 && point <= 0x115F) || (point >= 0x2E80 && point <= 0xA4CF) ||
                    (point >= 0xAC00 && point <= 0xD7A3) || (point >= 0xF900 && point <= 0xFAFF) ||
                    (point >= 0xFE30 && point <= 0xFE6F) || (point >= 0xFF00 && point <= 0xFF60) ||
                    (point >= 0x1F300 && point <= 0x1FAFF) ||
                    (point >= 0x20000 && point <= 0x3FFFD);
  return wide ? 2 : 1;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const bool is_bad = utf8_length(text) == 0;
    const std::string_view character = take_character(text);
    const auto byte = static_cast<unsigned char>(character.front());
    if (byte < 0x20 || byte == 0x7F) {
      out += (byte == '\n' || byte == '\t') ? static_cast<char>(byte) : '?';
    } else if (is_bad) {
      out += replacement;
    } else {
      out += is_c1(character) || turns_direction(character) ? "?" : character;
    }
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string out = printable(text);
  std::replace(out.begin(), out.end(), '\n', ' ');
  std::replace(out.begin(), out.end(), '\t', ' ');
  return out;
}

int text_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) width += column_count(code_point(take_character(text)));
  return width;
}

std::string shortened(std::string_view text, int width) {
  if (text_width(text) <= width) return std::string(text);
  if (width <= 0) return "";
  std::string out;
  int used = 0;
  while (!text.empty()) {
    const std::string_view character = take_character(text);
    used += column_count(code_point(character));
    if (used > width - 1) break;
    out += character;
  }
  return out + "…";
}

std::string screenful(std::string_view text, int rows, int columns) {
  const auto lines = std::count(text.begin(), text.end(), '\n');
  const auto shown = lines <= rows - 1 ? lines : rows - 2;
  std::string out;
  for (std::ptrdiff_t i = 0; i < shown; ++i) {
    const std::string line(text.substr(0, text.find('\n')));
    text.remove_prefix(line.size() + 1);
    out += (line.find('\x1b') == line.npos ? shortened(line, columns) : line) + '\n';
  }
  if (shown == lines) return out;
  return out + shortened("… " + std::to_string(lines - shown) + " more lines", columns) + '\n';
}

void TerminalFilter::feed(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    switch (mode_) {
      case Mode::text:
        text_byte(byte, out);
        break;
      case Mode::escape:
        escape_byte(byte, out);
        break;
      case Mode::csi:
        csi_byte(byte, out);
        break;
      case Mode::string:  // a title, a link, a device string: ends with BEL or ESC \ .
        if (byte == 0x1B) mode_ = Mode::string_escape;
        if (byte == 0x07 || byte == '\n') mode_ = Mode::text;
        break;
      case Mode::string_escape:
        mode_ = byte == '\\' ? Mode::text : Mode::string;
        break;
    }
  }
}

void TerminalFilter::finish(std::string& out) {
  if (mode_ == Mode::text && !pending_.empty()) out += replacement;
  pending_.clear();
  mode_ = Mode::text;
  after_return_ = false;
}

void TerminalFilter::text_byte(unsigned char byte, std::string& out) {
  if (after_return_) {
    after_return_ = false;
    out += '\n';
    if (byte == '\n') return;
  }
  if (byte < 0x20 || byte == 0x7F) {
    control_byte(byte, out);
  } else {
    character_byte(byte, out);
  }
}

void TerminalFilter::control_byte(unsigned char byte, std::string& out) {
  if (!pending_.empty()) out += replacement;
  pending_.clear();
  if (byte == 0x1B) {
    mode_ = Mode::escape;
  } else if (byte == '\r') {
    after_return_ = true;
  } else if (byte == '\n' || byte == '\t') {
    out += static_cast<char>(byte);
  }
}

void TerminalFilter::character_byte(unsigned char byte, std::string& out) {
  if (pending_.empty() && byte < 0x80) {
    out += static_cast<char>(byte);
    return;
  }
  if (!pending_.empty() && (byte & 0xC0u) != 0x80u) {  // the character before was cut short
    out += replacement;
    pending_.clear();
    return character_byte(byte, out);
  }
  pending_ += static_cast<char>(byte);
  const std::size_t expected = expected_length(static_cast<unsigned char>(pending_[0]));
  if (pending_.size() < expected) return;
  const bool good = utf8_length(pending_) == pending_.size() && !is_c1(pending_);
  out += good ? pending_ : std::string(replacement);
  pending_.clear();
}

void TerminalFilter::escape_byte(unsigned char byte, std::string&) {
  pending_.clear();
  if (byte == '[') {
    mode_ = Mode::csi;
  } else if (byte == ']' || byte == 'P' || byte == 'X' || byte == '^' || byte == '_') {
    mode_ = Mode::string;
  } else if (byte >= 0x20 && byte <= 0x2F) {
    // An intermediate byte of a longer sequence: its last byte ends it.
  } else {
    mode_ = Mode::text;
  }
}

void TerminalFilter::csi_byte(unsigned char byte, std::string& out) {
  if (byte >= 0x40 && byte <= 0x7E) {
    const bool color = byte == 'm' && pending_.find_first_not_of("0123456789;:") == pending_.npos;
    if (color && pending_.size() < pending_limit_bytes) {
      out += "\x1b[" + pending_ + "m";
      leaves_color_ = pending_.find_first_not_of("0;") != pending_.npos;
    }
    pending_.clear();
    mode_ = Mode::text;
  } else if (byte < 0x20) {  // broken off
    pending_.clear();
    mode_ = Mode::text;
    text_byte(byte, out);
  } else if (pending_.size() < pending_limit_bytes) {
    pending_ += static_cast<char>(byte);
  }
}

}  // namespace muster
