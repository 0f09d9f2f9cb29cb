// Sessions of programs that were killed, until all of their processes are gone: a driver takes its
// memory back for seconds, and what is measured or started meanwhile meets that. Waited for no
// longer than ending_limit: a process that hangs in the kernel is not ended by waiting. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>

#include "runtime/protocol/boot_clock.h"

namespace muster {

inline constexpr std::chrono::seconds ending_limit{5};

class EndingSessions {
 public:
  explicit EndingSessions(std::chrono::milliseconds limit = ending_limit) : limit_(limit) {}

  void add(pid_t session);
  // Reads /proc while there is something to wait for.
  bool are_gone();
  // Until they are gone, however long that takes: no processes of any attempt.
  const std::map<pid_t, BootTime>& all() const { return until_; }
  // Of those that are waited for no longer, as are_gone() saw them last: "process 4711
  // (python) of what was measured before does not end". Empty: there is none.
  std::string hung() const;

 private:
  std::chrono::milliseconds limit_;
  std::map<pid_t, std::string> alive_;  // one of its processes, by session, at the last look
  std::map<pid_t, BootTime> until_;
  BootTime look_at_{};  // for those that hang
};

}  // namespace muster
