#include "runtime/report/terminal_text.h"

namespace muster {

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

}  // namespace muster
