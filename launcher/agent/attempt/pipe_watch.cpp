#include "launcher/agent/attempt/pipe_watch.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

namespace muster {

// Handlers hold it weakly: one that is on its way when the watch goes finds nothing.
struct PipeWatch::State : std::enable_shared_from_this<State> {
  State(boost::asio::io_context& io, int fd, std::function<void()> told)
      : pipe(io, fd), pause(io), on_bytes(std::move(told)) {}
  ~State() { pipe.release(); }

  void wait() {
    pipe.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [held = weak_from_this()](const boost::system::error_code& error) {
                      const auto state = held.lock();
                      if (error || !state) return;
                      state->is_waiting = false;
                      state->on_bytes();
                    });
  }

  boost::asio::posix::stream_descriptor pipe;
  boost::asio::steady_timer pause;
  std::function<void()> on_bytes;
  bool is_waiting = false;
};

PipeWatch::PipeWatch(boost::asio::io_context& io, int pipe, std::function<void()> on_bytes)
    : state_(std::make_shared<State>(io, pipe, std::move(on_bytes))) {}

PipeWatch::~PipeWatch() = default;

void PipeWatch::tell_next(std::chrono::milliseconds pause) {
  if (state_->is_waiting) return;
  state_->is_waiting = true;
  if (pause.count() == 0) return state_->wait();
  state_->pause.expires_after(pause);
  state_->pause.async_wait([held = std::weak_ptr(state_)](const boost::system::error_code& error) {
    if (const auto state = held.lock(); state && !error) state->wait();
  });
}

}  // namespace muster
