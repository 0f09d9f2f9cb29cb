// How the helpers of a NodeReader ended: the agent reaps all its children, these too, and the
// reader asks later. Outlives its reader. One thread.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>

#include <functional>
#include <map>

#include "health/read/node_reader.h"

namespace muster {

class ReaderDeaths {
 public:
  ReaderDeaths() = default;
  ReaderDeaths(const ReaderDeaths&) = delete;
  ReaderDeaths& operator=(const ReaderDeaths&) = delete;

  // For NodeReader::Options.
  std::function<pid_t(pid_t, int*, int)> wait() {
    return [this](pid_t pid, int* status, int) {
      const auto found = dead_.find(pid);
      if (found == dead_.end()) return ::waitpid(pid, status, WNOHANG);
      if (status != nullptr) *status = found->second;
      dead_.erase(found);
      return pid;
    };
  }

  // A dead child of the agent; true: it was the reader's helper.
  bool reaped(NodeReader* reader, pid_t pid, int wait_status) {
    if (reader == nullptr || reader->helper() != pid) return false;
    dead_[pid] = wait_status;
    reader->advance();  // before the number is somebody else's
    return true;
  }

 private:
  std::map<pid_t, int> dead_;  // until the reader asks
};

}  // namespace muster
