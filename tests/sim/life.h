// One life of the controller process: what it has asked to be called for happens only while it
// lives, and it may be killed from inside any of these calls.
#pragma once

#include <functional>
#include <memory>

#include "launcher/os/timers.h"
#include "tests/sim/event_queue.h"

namespace muster::sim {

// Thrown wherever the simulation kills the controller: nothing after this point has happened.
struct Killed {};

class Life {
 public:
  explicit Life(std::function<void()> on_killed) : on_killed_(std::move(on_killed)) {}

  bool is_over() const { return over_; }
  void end() { over_ = true; }
  // Runs a piece of the controller.
  void enter(const std::function<void()>& call) {
    if (over_) return;
    try {
      call();
    } catch (const Killed&) {
      over_ = true;
      on_killed_();
    }
  }

 private:
  std::function<void()> on_killed_;
  bool over_ = false;
};

// The controller's time. What is to happen at once takes `turn_time`: a busy controller hears more
// before it acts.
class VirtualTimers : public Timers {
 public:
  VirtualTimers(EventQueue& events, std::shared_ptr<Life> life, Milliseconds turn_time)
      : events_(events), life_(std::move(life)), turn_time_(turn_time) {}

  SteadyTime now() const override { return SteadyTime{} + events_.now(); }
  Time wall_now() const override { return events_.wall_now(); }
  RawTime raw_now() const override { return events_.now(); }
  std::unique_ptr<Alarm> after(Milliseconds delay, std::function<void()> call) override;
  void post(std::function<void()> call) override;

 private:
  EventQueue& events_;
  std::shared_ptr<Life> life_;
  Milliseconds turn_time_;
};

}  // namespace muster::sim
