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

// The kernel's log as it comes: /dev/kmsg, or a file or FIFO in its form. Opened without blocking;
// not read by a helper, for no driver is asked. One thread.

class KernelLog {
 public:
  // An error stays: see error(). From the oldest line that the kernel keeps.
  explicit KernelLog(const std::string& path);
  ~KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  // What is there now, at most about 1 MiB at a time; empty: nothing new. Lines that were
  // overwritten before they were read show as a gap of their sequence numbers.
  std::vector<KernelLine> read();
  bool may_have_more() const { return may_have_more_; }  // the last read stopped at its limit
  // To be polled for reading. -1: it cannot be read, or it is a regular file, which is always
  // readable, grown or not: read() now and then.
  int descriptor() const { return is_regular_ ? -1 : file_; }
  // "Operation not permitted"; empty: it is read.
  const std::string& error() const { return error_; }

 private:
  void fail(int error_number);
  void close();

  int file_ = -1;
  int own_writer_ = -1;  // of a FIFO: without any it would be readable for ever
  bool is_regular_ = false;
  bool may_have_more_ = false;
  std::string error_;
  KmsgParser parser_;
};

}  // namespace muster
