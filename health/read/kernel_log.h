// The kernel's log as it comes: /dev/kmsg, or a file or FIFO in its form. Opened without blocking;
// not read by a helper, for no driver is asked. One thread.
#pragma once

#include <string>
#include <vector>

#include "health/read/kmsg.h"

namespace muster {

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
