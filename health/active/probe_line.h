// The lines that every probe prints, one for each number, at once, so that a kill loses none of
// those before it; samples.h reads them:
//
//   metric device value
//   metric device error TEXT      it could not be measured
//   metric device absent TEXT     what measures it is not there
//
// The node itself is the device "-". Standard library only: programs of other compilers use it.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace muster {

inline constexpr std::string_view probe_node_device = "-";
inline constexpr std::size_t probe_text_max = 300;

// One line of readable characters, whatever a library said.
inline std::string probe_text(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, probe_text_max)) line += c >= ' ' && c <= '~' ? c : ' ';
  return line;
}

inline void print_probe_line(std::string_view metric, std::string_view device,
                             const std::string& rest) {
  const std::string_view named = device.empty() ? probe_node_device : device;
  std::string line;
  line.append(metric).append(" ").append(named).append(" ").append(rest).append("\n");
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

inline void print_probe_value(std::string_view metric, std::string_view device, double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  print_probe_line(metric, device, text);
}

inline void print_probe_error(std::string_view metric, std::string_view device,
                              std::string_view why) {
  print_probe_line(metric, device, "error " + probe_text(why));
}

inline void print_probe_absent(std::string_view metric, std::string_view device,
                               std::string_view what) {
  print_probe_line(metric, device, "absent " + probe_text(what));
}

}  // namespace muster
