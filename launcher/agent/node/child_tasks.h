// Work that may block (a slow file system, a large tree) in a forked child that can be killed, so
// that the agent always answers. The child runs a function and hands back one string; while it
// works it may tell what it is at, which starts its time limit anew. Owned by the agent.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/agent/node/process_scan.h"
#include "launcher/os/clocks.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace muster {

// The one message that a child handed back as a frame.
Result<FromAgent> message_of(const std::string& frame);

class ChildTasks {
 public:
  using Tell = std::function<void(std::string_view doing)>;
  using Work = std::function<std::string(const Tell& tell)>;
  // An Error says why there is no answer: not started, killed, or silent for too long and where.
  using Done = std::function<void(Result<std::string>)>;
  using TaskId = std::uint64_t;

  explicit ChildTasks(boost::asio::io_context& io);
  ~ChildTasks();
  using Told = std::function<void(const std::string& doing)>;
  // `limit` is for the whole work, or from one telling to the next.
  TaskId run(Work work, Milliseconds limit, Done done, Told told = {});
  // Kills the child; its Done gets an Error when it is gone. Does nothing when it is over.
  void stop(TaskId id);
  pid_t process_of(TaskId id) const;  // 0: it never started, or is over
  // The number of a dead child is nobody's: it is not signalled any more.
  bool reaped(pid_t pid);

 private:
  struct Task;
  void watch_silence(const std::shared_ptr<Task>& task);
  void read_more(const std::shared_ptr<Task>& task);
  void conclude(const std::shared_ptr<Task>& task);
  void finish(const std::shared_ptr<Task>& task, Result<std::string> answer);

  boost::asio::io_context& io_;
  std::map<TaskId, std::shared_ptr<Task>> tasks_;
  TaskId next_id_ = 1;
};

// Learns which children have died: when the kernel says so and, while ranks run, by looking often,
// so that it can say of each since when at most it has been dead, however long the agent itself was
// held up. Owned by Agent, on its thread.

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
