// Bytes from elsewhere made safe to show: text that is not UTF-8 and control sequences that could
// move the cursor, set the title or answer back never reach a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// A whole text: control characters but newline and tab, and those that turn the direction of
// writing, become `?`; bad UTF-8 becomes U+FFFD.
std::string printable(std::string_view text);

// As `printable`, on one line: newlines and tabs become blanks. For names and texts of others.
std::string one_line(std::string_view text);

// Columns that `text` (printable, one line) takes; East Asian wide characters and emoji take two.
int text_width(std::string_view text);

// At most `width` columns of it, with `…` as the last one when something was cut.
std::string shortened(std::string_view text, int width);

// The part of `text` that a screen holds without scrolling or wrapping: lines are cut at `columns`,
// and the last row says how many more there are. Lines that carry colours fit already.
std::string screenful(std::string_view text, int rows, int columns);

// A stream in pieces, cut anywhere. Keeps printable UTF-8, newlines, tabs and colours (SGR); drops
// every other control sequence; a carriage return that is not part of a line end becomes a newline.
// Holds back at most `pending_limit_bytes` between pieces, whatever arrives.
class TerminalFilter {
 public:
  static constexpr std::size_t pending_limit_bytes = 64;

  // Appends what may be shown to `out`.
  void feed(std::string_view bytes, std::string& out);
  // Whether what was given last left a colour on.
  bool leaves_color() const { return leaves_color_; }
  // The end: what is held back becomes U+FFFD or nothing.
  void finish(std::string& out);

 private:
  enum class Mode { text, escape, csi, string, string_escape };

  void text_byte(unsigned char byte, std::string& out);
  void control_byte(unsigned char byte, std::string& out);
  void character_byte(unsigned char byte, std::string& out);
  void escape_byte(unsigned char byte, std::string& out);
  void csi_byte(unsigned char byte, std::string& out);

  Mode mode_ = Mode::text;
  std::string pending_;  // an unfinished character or control sequence
  bool after_return_ = false;
  bool leaves_color_ = false;
};

}  // namespace muster
