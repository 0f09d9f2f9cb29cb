// What has an agent look at its node, and when: a real helper reads a node of files.
#include "launcher/agent/health/monitor.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "launcher/os/clocks.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/read/reader_fixture.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

const AttemptKey watched_attempt{JobId{"job"}, AttemptId{0}};

// A host with as much memory as its profile says.
struct WatchedHost {
  explicit WatchedHost(const FakeRoot& files) : root(files) { set_memory(1'000'000); }

  void set_memory(int kb) const {
    root.write("/proc/meminfo", "MemTotal:       " + std::to_string(kb) + " kB\n");
  }
  static HealthProfile profile() {
    HealthProfile profile;
    profile.name = "memory";
    profile.host.mem_kb = 1'000'000;
    profile.host.disks.clear();
    profile.checks["host.mem"] = {CheckMode::enforce, 2, {}};
    return profile;
  }
  // In the kernel's log, where it is followed.
  void log_oops() const {
    std::ofstream(root.below("/dev/kmsg"), std::ios::app)
        << "3,101," << raw_time().count() << ",-;Oops: 0000 [#1] SMP\n";
  }
  HealthMonitor::Site site() {
    return {root.path(), root.path() + "/health.json", {helper_program()},
            "boot-1",    [this] { ++decided; },        {}};
  }
  void begin() {
    watch.emplace(io, site(), [this](const FaultsTold& faults) { told.push_back(faults); });
  }
  // As the agent drives it, or without its polls.
  template <class Holds>
  bool until(const Holds& holds, std::chrono::milliseconds most = 5s, bool polls = true) {
    const auto began = std::chrono::steady_clock::now();
    for (auto next_poll = began; !holds();) {
      const auto now = std::chrono::steady_clock::now();
      if (now - began > most) return false;
      if (polls && now >= next_poll) {
        watch->poll();
        next_poll = now + HealthMonitor::poll_pause;
      }
      io.restart();
      io.run_for(5ms);
    }
    return true;
  }
  bool reads() {
    watch->poll();
    return watch->helper() != 0;
  }
  bool believes(const std::string& check) const {
    const auto reported_now = watch->state();
    return reported_now && std::ranges::any_of(reported_now->faults, [&](const NodeFault& fault) {
             return fault.check == check;
           });
  }
  // The checks that keep a job away; nothing: no answer yet.
  void ask(std::vector<std::string> excused = {}) {
    answer.reset();
    watch->ask(std::move(excused), [this](const std::vector<CheckFailure>& failures) {
      answer.emplace();
      for (const CheckFailure& one : failures) answer->push_back(one.check);
    });
  }

  const FakeRoot& root;
  boost::asio::io_context io;
  std::vector<FaultsTold> told;
  int decided = 0;
  std::optional<std::vector<std::string>> answer;
  std::optional<HealthMonitor> watch;
};

using Checks = std::vector<std::string>;

}  // namespace

TEST_CASE("a node without profile and devices is read by nobody until a driver is there") {
  const FakeRoot files;
  WatchedHost host(files);
  host.begin();
  CHECK_FALSE(host.watch->state());
  host.watch->follow(std::nullopt);
  REQUIRE(host.watch->state());
  CHECK(host.watch->state()->settled);
  CHECK_FALSE(host.reads());
  const std::string device = GENERATE("/proc/driver/nvidia/version", "/sys/class/infiniband/x");
  files.write(device, "");
  CHECK_FALSE(host.reads());
  host.watch->release();  // as when it is reset
  host.watch->acquire();
  CHECK(host.reads());
}

TEST_CASE("a node with devices or with a profile is read from the first greeting on") {
  const FakeRoot files;
  WatchedHost host(files);
  host.begin();
  const bool has_profile = GENERATE(true, false);
  if (!has_profile) std::filesystem::create_directories(files.below("/sys/class/infiniband"));
  host.watch->follow(has_profile ? std::optional(WatchedHost::profile()) : std::nullopt);
  CHECK(host.reads());
  host.watch->release();
  CHECK_FALSE(host.reads());
  host.watch->acquire();
  CHECK(host.reads());
}

TEST_CASE("a fault that an earlier agent believed has the node read: only a pass ends it") {
  const FakeRoot files;
  files.write("/dev/kmsg", "6,1,1000,-;Linux version 6.1\n");
  {
    WatchedHost earlier(files);
    earlier.begin();
    earlier.watch->follow(std::nullopt);
    earlier.watch->poll();
    earlier.log_oops();
    REQUIRE(earlier.until([&] { return earlier.believes("host.oops"); }));
    REQUIRE(earlier.told.size() == 1);
    CHECK_FALSE(earlier.told[0].faults.empty());
  }
  WatchedHost host(files);
  host.begin();
  host.watch->follow(std::nullopt);
  CHECK(host.believes("host.oops"));
  CHECK(host.told.empty());  // no news
  CHECK(host.reads());
}

TEST_CASE("a gate is answered by a run of its own, and by the last one while that is young") {
  const FakeRoot files;
  WatchedHost host(files);
  host.begin();
  host.ask();
  CHECK(host.answer == Checks{});  // nothing is known of health before the first greeting
  host.watch->follow(WatchedHost::profile());
  host.ask();
  CHECK_FALSE(host.answer);
  REQUIRE(host.until([&] { return host.answer.has_value(); }));
  CHECK(host.answer == Checks{});
  host.ask();
  CHECK(host.answer == Checks{});
}

TEST_CASE("a gate waits until what is bad is believed, unless it is excused for this job") {
  const FakeRoot files;
  WatchedHost host(files);
  host.begin();
  host.set_memory(500'000);
  host.watch->follow(WatchedHost::profile());
  host.ask({"host.mem"});
  REQUIRE(host.until([&] { return host.answer.has_value(); }));
  CHECK(host.answer == Checks{});
  CHECK_FALSE(host.believes("host.mem"));  // after one look
  host.ask();
  CHECK_FALSE(host.answer);
  REQUIRE(host.until([&] { return host.answer.has_value(); }));  // after two
  CHECK(host.answer == Checks{"host.mem"});
  CHECK(host.believes("host.mem"));
  host.ask({"host.mem"});
  CHECK(host.answer == Checks{});
  JobHealth skips;
  skips.skip = {"host.mem"};
  host.watch->begin_job(skips);
  host.ask();
  REQUIRE(host.until([&] { return host.answer.has_value(); }));
  CHECK(host.answer == Checks{});
}

TEST_CASE("what killed a rank is looked for at once, without waiting for the next poll") {
  const FakeRoot files;
  WatchedHost host(files);
  host.begin();
  host.watch->follow(WatchedHost::profile());
  host.watch->begin_job({});
  host.watch->set_idle(false);
  host.watch->rank_died(watched_attempt);
  CHECK(host.watch->is_deciding(watched_attempt));
  CHECK_FALSE(host.watch->is_deciding({JobId{"job"}, AttemptId{1}}));
  CHECK(host.decided == 0);
  CHECK(host.until([&] { return host.decided > 0; }, 4s, false));
  CHECK_FALSE(host.watch->is_deciding(watched_attempt));
  host.watch->rank_died(watched_attempt);  // the next rank of the same
  CHECK_FALSE(host.watch->is_deciding(watched_attempt));
}

TEST_CASE("what killed a rank is not looked for where the job or the node has nothing to tell") {
  const FakeRoot files;
  WatchedHost host(files);
  host.begin();
  const bool has_profile = GENERATE(true, false);
  host.watch->follow(has_profile ? std::optional(WatchedHost::profile()) : std::nullopt);
  JobHealth health;
  if (has_profile) health.failure = HealthLevel::off;
  host.watch->begin_job(health);
  host.watch->set_idle(false);
  host.watch->rank_died(watched_attempt);
  CHECK_FALSE(host.watch->is_deciding(watched_attempt));
}
