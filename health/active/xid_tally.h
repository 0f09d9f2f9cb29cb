// The Xids of GPUs and the SXids of NVSwitches that the kernel's log tells from some moment on.
// Unlike the watch of an agent (kernel/kernel_watch.h) it asks for no meaning: on a node that does
// nothing but what is known to be right none is expected. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "health/read/kmsg.h"

namespace muster {

class XidTally {
 public:
  // What was in the log before: where it begins, and no more.
  void skip(std::span<const KernelLine> lines);
  void add(std::span<const KernelLine> lines);

  int count() const { return count_; }
  std::uint64_t lost_lines() const { return lost_lines_; }  // overwritten before they were read
  // "Xid 79 of 0000:3b:00.0; SXid 12028 of 0000:c1:00.0"
  std::string text() const;

 private:
  bool is_next(const KernelLine& line);
  void take(const std::string& what);

  std::optional<std::uint64_t> sequence_;
  std::uint64_t lost_lines_ = 0;
  int count_ = 0;
  std::vector<std::string> first_;  // each kind and device once
};

}  // namespace muster
