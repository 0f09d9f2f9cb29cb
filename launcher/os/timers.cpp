#include "launcher/os/timers.h"

#include <boost/asio/steady_timer.hpp>

namespace muster {

namespace {

// Shared with the io_context, which may hold an expired timer's call when the alarm is destroyed.
struct Call {
  explicit Call(boost::asio::io_context& io) : timer(io) {}
  boost::asio::steady_timer timer;
  std::function<void()> what;
};

class AsioAlarm : public Alarm {
 public:
  explicit AsioAlarm(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  ~AsioAlarm() override {
    call_->what = nullptr;
    call_->timer.cancel();
  }

 private:
  std::shared_ptr<Call> call_;
};

}  // namespace

std::unique_ptr<Alarm> call_after(boost::asio::io_context& io,
                                  std::chrono::steady_clock::duration delay,
                                  std::function<void()> what) {
  auto call = std::make_shared<Call>(io);
  call->what = std::move(what);
  call->timer.expires_after(delay);
  call->timer.async_wait([call](const boost::system::error_code&) {
    if (auto now = std::exchange(call->what, nullptr)) now();
  });
  return std::make_unique<AsioAlarm>(std::move(call));
}

}  // namespace muster
