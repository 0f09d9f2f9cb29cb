// The container of an attempt: a runtime makes the place, muster-hold in it (launcher/hold) starts
// the ranks. Owned by LocalAttempt, on the agent's thread.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/node/spawn.h"
#include "launcher/os/fd.h"
#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace muster {

// The agent's side of muster-hold, process 1 of the container: starts processes there and learns
// how they ended.
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
  int descriptor() const { return socket_ ? socket_.get() : listener_.get(); }
  bool has_come() { return socket_ || accept(); }
  bool is_gone() const { return is_gone_; }
  std::vector<Ended> read();

  // Blocks until the program runs, 10 s at most; then an Error at once until the holder is heard
  // again. What starts too late is killed.
  Result<pid_t> start(const SpawnRequest& request);

  // Its own number, outside of the container.
  pid_t pid() const { return pid_; }

 private:
  bool accept();
  bool take_message(Milliseconds patience);
  Result<pid_t> begun(const std::string& id, const Fd& failure);

  Fd listener_;
  Fd socket_;
  bool is_gone_ = false;
  bool is_silent_ = false;
  pid_t pid_ = 0;
  int last_id_ = 0;
  std::map<std::string, pid_t> begun_;  // by what they were asked for as
  std::set<std::string> given_up_;
  std::vector<Ended> ended_;
};

class Container : public std::enable_shared_from_this<Container> {
 public:
  struct Handlers {
    std::function<void(pid_t holder)> on_ready;  // once: processes can be started
    std::function<void(const Holder::Ended&)> on_ended;
    std::function<void()> on_gone;  // all that was in it has ended
  };

  Container(boost::asio::io_context& io, Holder holder) : watch_(io), holder_(std::move(holder)) {}
  void watch(Handlers handlers);
  // No handler is called any more.
  void forget();

  bool is_ready() const { return is_ready_ && !holder_.is_gone(); }
  Result<pid_t> start(const SpawnRequest& request) { return holder_.start(request); }

 private:
  void wait();
  void look();

  boost::asio::posix::stream_descriptor watch_;
  Holder holder_;
  Handlers handlers_;
  bool is_ready_ = false;
};

// Which processes are in a container: those of its process namespace, whatever they made of their
// session, parent and environment. With the holder, its process 1, all of them end, by the kernel's
// hand.
class ContainerProcesses {
 public:
  ContainerProcesses() = default;  // there are none
  // Of this holder, noted in the spool for an agent that comes later.
  static Result<ContainerProcesses> of(pid_t holder, const std::string& spool,
                                       const std::string& boot_id);
  // Of an attempt whose agent died; none where its holder has ended.
  static ContainerProcesses noted(const std::string& spool, const std::string& boot_id);

  std::set<pid_t> list() const;
  // Outside, of the process with this number inside; 0: there is none.
  pid_t outside(pid_t inside) const;

 private:
  Fd namespace_;  // open, so that no later namespace has its number
  std::uint64_t number_ = 0;
};

}  // namespace muster
