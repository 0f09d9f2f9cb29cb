// Tells once when a rank has written into its pipe. Owned beside the pipe, on the agent's thread;
// never reads, never closes the pipe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>

namespace muster {

class PipeWatch {
 public:
  PipeWatch(boost::asio::io_context& io, int pipe, std::function<void()> on_bytes);
  PipeWatch(PipeWatch&&) = default;
  PipeWatch& operator=(PipeWatch&&) = default;
  ~PipeWatch();

  // The next time there is something, looking after `pause`; nothing when it is told already.
  void tell_next(std::chrono::milliseconds pause);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster
