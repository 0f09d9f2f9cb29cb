// Records of the kernel's log as data. Takes the bytes of /dev/kmsg (or of a file in its form) and
// lines as dmesg and journalctl print them. Pure: opens nothing, keeps at most one unfinished line.
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
  // All records whose lines are complete; what is behind the last line end waits for more.
  std::vector<KernelLine> feed(std::string_view bytes);
  // Lines that are no record.
  std::uint64_t malformed() const { return malformed_; }

 private:
  void take_line(std::string_view line, std::vector<KernelLine>& records);

  std::string unfinished_;
  bool skipping_ = false;  // of a line longer than a record may be
  std::uint64_t malformed_ = 0;
};

// A record of /dev/kmsg, or several where it was joined from them, that reads as this line. A line
// without sequence or time has none.
std::string kmsg_text(const KernelLine& line);

// `[   12.345678] text`, `<4>[12.3] text`, `kern  :err   : [12.3] text`, `… host kernel: text`.
// Years and dates in front are not read: without seconds since boot there is no time.
KernelLine parse_plain_line(std::string_view line);

// Printable ASCII at most `limit` long, all else as \xNN: fit for a report.
std::string printable(std::string_view text, std::size_t limit);

}  // namespace muster
