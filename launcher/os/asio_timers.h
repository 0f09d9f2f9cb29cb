// The controller's time: the clocks of this machine and the io_context that it runs on.
#pragma once

#include <boost/asio/io_context.hpp>

#include "launcher/os/timers.h"

namespace muster {

class AsioTimers : public Timers {
 public:
  explicit AsioTimers(boost::asio::io_context& io) : io_(io) {}
  SteadyTime now() const override;
  Time wall_now() const override;
  RawTime raw_now() const override;
  std::unique_ptr<Alarm> after(Milliseconds delay, std::function<void()> call) override;
  void post(std::function<void()> call) override;

 private:
  boost::asio::io_context& io_;
};

}  // namespace muster
