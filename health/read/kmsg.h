// Records of the kernel's log as data, from the bytes of /dev/kmsg or of a file in its form. Pure:
// opens nothing, keeps at most one unfinished line.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Time on the log's own clock, which begins at boot. CLOCK_MONOTONIC is slewed by time services and
// drifts away from it by seconds a day; CLOCK_MONOTONIC_RAW runs with it.
using SinceBoot = std::chrono::microseconds;

struct KernelLine {
  std::optional<int> priority;  // 0 emerg … 7 debug
  // Programs may write to the log too; the kernel marks what they wrote.
  bool is_from_kernel = true;
  std::optional<std::uint64_t> sequence;  // of /dev/kmsg: grows by one with each record
  std::uint64_t continued = 0;            // by so many further records, joined here
  std::optional<SinceBoot> since_boot;
  std::string text;    // escapes undone; several lines where one record held them
  std::string device;  // of the record's dictionary: "+pci:0000:5c:00.0"; usually empty
};

// The form of /dev/kmsg: `prio,seq,usec,flags[,…];text`, then lines ` KEY=value`. Flag `+`: the
// rest of the record before. Bytes that are not printable come as \xNN.
class KmsgParser {
 public:
  // All records whose lines are complete; what is behind the last line end waits for more. Lines
  // that are no record are left out.
  std::vector<KernelLine> feed(std::string_view bytes);

 private:
  void take_line(std::string_view line, std::vector<KernelLine>& records);

  std::string unfinished_;
  bool skipping_ = false;  // of a line longer than a record may be
};

// A record of /dev/kmsg, or several where it was joined from them, that reads as this line. A line
// without sequence or time has none.
std::string kmsg_text(const KernelLine& line);

// Printable ASCII at most `limit` long, all else as \xNN: fit for a report.
std::string printable(std::string_view text, std::size_t limit);

}  // namespace muster
