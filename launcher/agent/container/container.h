// The container of an attempt: a runtime makes the place, muster-hold in it starts the ranks. Owned
// by LocalAttempt, on the agent's thread, and by its own handlers.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>

#include "launcher/agent/container/holder.h"

namespace muster {

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

}  // namespace muster
