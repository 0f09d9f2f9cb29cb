// A text as std::printf would write it, of at most 399 bytes.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace muster {

[[gnu::format(printf, 1, 2)]] inline std::string printed(const char* format, ...) {
  char text[400];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

}  // namespace muster
