// The end of an attempt waits for the last look at its metrics, and for no look before it.
#include "launcher/agent/watch/progress.h"

#include <sys/wait.h>

#include <boost/asio/io_context.hpp>
#include <csignal>

#include "tests/launcher/agent/metric_sources/sample.h"

using namespace muster;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a look that hangs does not hold up the last one") {
  const FakeRoot root;
  for (int i = 0; i < 200; ++i) {
    put_bytes(root.below("/v" + std::to_string(i) + "/metrics.csv"), "step,a\n1,0.5\n");
  }
  boost::asio::io_context io;
  ChildTasks tasks{io};
  const auto watch = std::make_shared<MetricWatch>(tasks, MetricPlaces{{root.below("/")}});
  const auto now = MetricWatch::Clock::now();
  bool is_done = false;
  watch->poll(now + seconds{6}, false, [] {});
  const pid_t hung = tasks.process_of(1);
  REQUIRE(hung > 0);
  ::kill(hung, SIGSTOP);
  watch->poll(now + seconds{7}, true, [&] { is_done = true; });
  for (int i = 0; i < 100 && !is_done; ++i) {
    io.restart();
    io.run_for(milliseconds{100});
  }
  CHECK(is_done);
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}

TEST_CASE("a last look that hangs is given up after some seconds") {
  const FakeRoot root;
  boost::asio::io_context io;
  ChildTasks tasks{io};
  const auto watch = std::make_shared<MetricWatch>(tasks, MetricPlaces{{root.below("/")}});
  bool is_done = false;
  watch->poll(MetricWatch::Clock::now(), true, [&] { is_done = true; });
  const pid_t hung = tasks.process_of(1);
  REQUIRE(hung > 0);
  ::kill(hung, SIGSTOP);
  for (int i = 0; i < 150 && !is_done; ++i) {
    io.restart();
    io.run_for(milliseconds{100});
  }
  CHECK(is_done);
  ::kill(hung, SIGKILL);
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}
