// The agent's side of muster-hold (launcher/hold/protocol.h), process 1 of an attempt's container:
// starts processes there and learns how they ended. Owned by LocalAttempt, on the agent's thread.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/node/spawn.h"
#include "launcher/os/fd.h"
#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace muster {

class Holder {
 public:
  // By their numbers outside of the container.
  struct Ended {
    pid_t pid = 0;
    int wait_status = 0;
  };

  // muster-hold, as a file has it.
  static std::string_view program();

  // In `directory`, which the container has as /muster: the socket, and muster-hold itself.
  static Result<Holder> prepare(const std::string& directory);

  // To be asked when `descriptor` is readable. The first to connect is the holder; it is nobody
  // else while the directory is the user's own.
  int descriptor() const;
  bool has_come() { return socket_ || accept(); }
  bool is_gone() const { return is_gone_; }
  bool was_asked_to_end() const { return was_asked_to_end_; }
  std::vector<Ended> read();

  // Blocks until the program runs, `begin_limit` at most.
  Result<pid_t> start(const SpawnRequest& request);

  // Its own number, outside of the container.
  pid_t pid() const { return pid_; }

 private:
  static constexpr Milliseconds begin_limit{10'000};

  bool accept();
  bool take_message(Milliseconds patience);
  Result<pid_t> begun(const std::string& id, const Fd& failure);

  Fd listener_;
  Fd socket_;
  bool is_gone_ = false;
  bool was_asked_to_end_ = false;
  pid_t pid_ = 0;
  int last_id_ = 0;
  std::map<std::string, pid_t> begun_;  // by what they were asked for as
  std::deque<Ended> ended_;
};

}  // namespace muster
