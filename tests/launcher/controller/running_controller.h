// The controller's loop with the real store, a disk that fails when told to, and agents that answer
// what the test says.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "launcher/controller/controller.h"
#include "launcher/controller/store/store.h"
#include "launcher/os/timers.h"
#include "tests/launcher/controller/agents.h"

namespace muster {

class FailingJournal : public Journal {
 public:
  FailingJournal(std::unique_ptr<Store> store, const bool& fails)
      : store_(std::move(store)), fails_(fails) {}
  Status append(const std::vector<Record>& records, const std::vector<JobRow>& rows) override {
    return fails_ ? Status(Error{"the disk is full"}) : store_->append(records, rows);
  }
  Result<std::vector<Record>> load_live() const override { return store_->load_live(); }
  Result<std::vector<Record>> records_of(const JobId& job) const override {
    return store_->records_of(job);
  }
  Result<std::optional<JobRow>> job(const JobId& job) const override { return store_->job(job); }

 private:
  std::unique_ptr<Store> store_;
  const bool& fails_;
};

struct RunningController {
  Scratch scratch;
  int ends_asked = 0;
  bool disk_fails = false;
  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> lives{io.get_executor()};
  AsioTimers timers{io};
  FakeTransport* transport = nullptr;  // the controller's
  std::unique_ptr<Controller> controller;

  std::unique_ptr<Store> store(Store::Mode mode) const {
    return std::move(*Store::open(scratch.path(), mode));
  }
  void start() {
    ControllerSettings settings;
    settings.home = Home{scratch.path()};
    settings.idle_limit = Seconds{0};
    auto fake = std::make_unique<FakeTransport>();
    transport = fake.get();
    controller = std::make_unique<Controller>(
        timers, settings,
        std::make_unique<FailingJournal>(store(Store::Mode::read_write), disk_fails),
        std::move(fake),
        Controller::Process{[] { return false; }, [this] { ++ends_asked; }});
    REQUIRE(controller->start());
    io.poll();
  }
  Status submit(const std::string& name) {
    std::optional<Status> heard;
    controller->observe(a_job(name, "a"), [&heard](Status status) { heard = std::move(status); });
    run_until([&heard] { return heard.has_value(); });
    return *heard;
  }
  // Fails the test when that does not come true.
  template <class Condition>
  void run_until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      io.run_one_for(std::chrono::milliseconds(100));
    }
  }
};

}  // namespace muster
