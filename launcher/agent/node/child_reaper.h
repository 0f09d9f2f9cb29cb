// Learns which children have died: when the kernel says so and, while ranks run, by looking often,
// so that it can say of each since when at most it has been dead, however long the agent itself was
// held up. Owned by Agent, on its thread.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>

#include "launcher/agent/node/process_scan.h"
#include "launcher/os/clocks.h"

namespace muster {

// A child of the agent that has ended: it lived at `earliest` and was dead at `latest`.
struct DeadChild {
  pid_t pid = 0;
  int wait_status = 0;
  RawTime earliest{0};
  RawTime latest{0};
};

class ChildReaper {
 public:
  struct Handlers {
    std::function<void(const DeadChild&)> on_dead;
    std::function<void()> on_reaped;  // after a look that found some
    std::function<bool()> is_wanted;  // to look often
  };

  ChildReaper(boost::asio::io_context& io, ProcessTable& processes, Handlers handlers);

  // True: somebody was dead. Without on_reaped.
  bool reap();
  void look();
  // For as long as it is wanted.
  void look_often();

 private:
  using Clock = boost::asio::steady_timer::clock_type;

  ProcessTable& processes_;
  Handlers handlers_;
  boost::asio::steady_timer timer_;
  std::chrono::milliseconds interval_;
  RawTime nobody_dead_at_;  // every child that has ended since is still to be reaped
  bool is_looking_ = false;
};

}  // namespace muster
