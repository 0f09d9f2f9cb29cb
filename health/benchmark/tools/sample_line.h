// A sample as the line that a probe prints of it (probe_line.h).
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "health/model/performance.h"

namespace muster {

void print_sample(const PerformanceSample& sample);

// The lines that every probe prints, one for each number, at once, so that a kill loses none of
// those before it; samples.h reads them:
//
//   metric device value
//   metric device error TEXT      it could not be measured
//   metric device absent TEXT     what measures it is not there
//   metric device COUNT fail TEXT   of counted faults, unless there is none: which;
//   metric device COUNT warn TEXT   `warn` where all of them are slight
//   waited_pct - PERCENT          of its time the probe waited for a processor: no metric
//   metric device bits ROUND HEX    a checksum that has to be compared with others (product_bits.h)
//
// The node itself is the device "-". Standard library only: programs of other compilers use it.

inline constexpr std::string_view probe_node_device = "-";
inline constexpr std::string_view probe_waited_word = "waited_pct";
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

inline void print_probe_bits(std::string_view metric, std::string_view device, unsigned round,
                             std::uint64_t bits) {
  char text[48];
  std::snprintf(text, sizeof text, "bits %u %016" PRIx64, round, bits);
  print_probe_line(metric, device, text);
}

inline void print_probe_faults(std::string_view metric, std::string_view device, int count,
                               bool is_slight, std::string_view which) {
  const std::string number = std::to_string(count);
  const std::string told = (is_slight ? " warn " : " fail ") + probe_text(which);
  print_probe_line(metric, device, count == 0 ? number : number + told);
}

}  // namespace muster
