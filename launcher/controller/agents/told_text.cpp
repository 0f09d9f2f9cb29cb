#include "launcher/controller/agents/told_text.h"

#include "launcher/wire/utf8_lines.h"

namespace muster {

namespace {

constexpr std::size_t text_bytes_most = 400;
constexpr std::size_t lines_most = 10;

}  // namespace

void limit_text(std::string& text) {
  if (text.size() <= text_bytes_most) return;
  text = to_utf8(std::string_view(text).substr(0, text_bytes_most));
}

void limit_lines(std::vector<std::string>& lines) {
  if (lines.size() > lines_most) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(lines_most));
  }
  for (std::string& line : lines) limit_text(line);
}

}  // namespace muster
