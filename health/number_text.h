// Numbers in findings.
#pragma once

#include <cstdio>
#include <string>

namespace muster {

// Six digits: "0.5", "123456", "1.5e+12".
inline std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace muster
