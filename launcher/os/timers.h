// Time as an input of code that waits: what it is now and what is called later. In production it is
// the io_context's (launcher/os/timers.h), in a simulation a queue of events. One
// thread; nothing is ever called from inside `after` or `post`.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "launcher/os/clocks.h"
#include "scheduler/text/duration.h"

namespace muster {

using SteadyTime = std::chrono::steady_clock::time_point;

// Something that will be called once. Destroying it, also from inside the call, means never.
class Alarm {
 public:
  virtual ~Alarm() = default;
};

class Timers {
 public:
  virtual ~Timers() = default;
  virtual SteadyTime now() const = 0;   // never goes back
  virtual Time wall_now() const = 0;    // what stamps records and is told to people
  virtual RawTime raw_now() const = 0;  // to be compared with the clocks of other machines
  [[nodiscard]] virtual std::unique_ptr<Alarm> after(Milliseconds delay,
                                                     std::function<void()> call) = 0;
  virtual void post(std::function<void()> call) = 0;  // soon, whatever happens to the caller
};

// By the io_context's own clock.
[[nodiscard]] std::unique_ptr<Alarm> call_after(boost::asio::io_context& io,
                                                std::chrono::steady_clock::duration delay,
                                                std::function<void()> call);

// The controller's time: the clocks of this machine and the io_context that it runs on.
class AsioTimers : public Timers {
 public:
  explicit AsioTimers(boost::asio::io_context& io) : io_(io) {}
  SteadyTime now() const override { return std::chrono::steady_clock::now(); }
  Time wall_now() const override { return wall_clock_now(); }
  RawTime raw_now() const override { return raw_time(); }
  std::unique_ptr<Alarm> after(Milliseconds delay, std::function<void()> call) override {
    return call_after(io_, delay, std::move(call));
  }
  void post(std::function<void()> call) override { boost::asio::post(io_, std::move(call)); }

 private:
  boost::asio::io_context& io_;
};

}  // namespace muster
