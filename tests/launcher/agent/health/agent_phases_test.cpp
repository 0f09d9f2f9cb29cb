// What a job's beginning, failure and end have an agent look at, and which checks count for a job:
// a fake node of eight GPUs, a real agent.
#include <algorithm>
#include <filesystem>

#include "tests/catch.h"
#include "tests/launcher/agent/healthy_node.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr int lost_gpu = 79;  // XID: fell off the bus
constexpr int remapped = 63;  // XID: a row was remapped, with effect at the next reset

// A gate's profile of the GPUs alone: what runs the tests is a host of some other kind.
HealthProfile gpu_profile() {
  HealthProfile profile;
  profile.name = "eight GPUs";
  profile.gpu = HealthyNode::profile().gpu;
  profile.required = {"gpu.count", "gpu.repair_pending"};
  return profile;
}

class Watched {
 public:
  explicit Watched(const std::optional<HealthProfile>& profile = gpu_profile()) {
    REQUIRE(agent_.serve() == 0);
    client_.emplace(agent_.connect());
    Hello hello{wire_version, agent_.controller(), NodeId{agent_.name()}, Milliseconds{60000}, {}};
    hello.health = profile;
    client_->ask<Welcome>(hello);
    CHECK(refused({}).empty());
  }

  HealthyNode& node() { return node_; }
  AgentClient& client() { return *client_; }
  std::string go() const { return agent_.home() + "/go"; }

  // The gate's failures of GPUs.
  std::vector<std::string> refused(const JobHealth& health) {
    CheckNode check;
    check.job = JobId{"job"};
    check.with_health = true;
    check.health = health;
    check.skip = health.skip;
    const auto gate = client_->ask<CheckDone>(check);
    std::vector<std::string> checks;
    for (const CheckFailure& failure : gate.failures) {
      const bool is_of_health = failure.check.starts_with("gpu.") || failure.check == "health";
      if (!is_of_health) continue;
      checks.push_back(failure.check);
      UNSCOPED_INFO(failure.check << ": " << failure.message);
    }
    return checks;
  }

  void start(const std::string& command, const JobHealth& health = {}) {
    StartRanks start = a_start(command);
    start.health = health;
    const auto started = client_->ask<StartDone>(start);
    REQUIRE(started.error == "");
  }
  void stop() { client_->ask<AttemptClean>(a_stop(milliseconds{0})); }

  // Of all that has been told, and is told until then; milliseconds{1}: what has come.
  std::optional<NodeFault> fault(const std::string& check, Remedy remedy, milliseconds limit) {
    std::optional<NodeFault> found;
    client_->wait(
        [&] {
          const auto told = client_->await<FaultsTold>(milliseconds{1});
          if (!told) return false;
          for (const NodeFault& one : told->faults) {
            if (one.check == check && one.remedy == remedy) found = one;
          }
          return found.has_value();
        },
        limit);
    return found;
  }

 private:
  HealthyNode node_;
  TestNode agent_;
  std::optional<AgentClient> client_;
};

JobHealth watched_by_nobody() {
  JobHealth health;
  health.run = false;
  return health;
}

}  // namespace

// Later they come every 30 s, and three samples of them are fast.
TEST_CASE("counters that no gate asks for are read when ranks begin") {
  HealthProfile profile = gpu_profile();
  profile.ib = HealthyNode::profile().ib;
  profile.required.push_back("ib.symbol");
  Watched watched(profile);
  std::filesystem::remove(watched.node().port_file(3, "counters/symbol_error"));
  watched.start("exec sleep 600");
  const auto fault = watched.fault("ib.symbol", Remedy::drain, seconds{15});
  REQUIRE(fault);
  CHECK(fault->device == HealthyNode::port(3));
}

TEST_CASE("what a job leaves on a GPU is found when its last rank is gone") {
  Watched watched;
  watched.start("exec sleep 600");
  watched.node().driver_says("gpu2.repair.channel 1");  // asked for at no other time
  watched.stop();
  const auto fault = watched.fault("gpu.repair_pending", Remedy::reset, seconds{8});
  REQUIRE(fault);
  CHECK(fault->device == "gpu2");
  CHECK(fault->fault_class == FaultClass::node);
  CHECK(watched.refused({}) == std::vector<std::string>{"gpu.repair_pending"});
}

TEST_CASE("the next gate waits for what the last job's end has begun to ask") {
  Watched watched;
  watched.start("exec sleep 600");
  watched.node().driver_says("gpu2.repair.channel 1");
  watched.stop();
  CHECK(watched.refused({}) == std::vector<std::string>{"gpu.repair_pending"});
}

TEST_CASE("a GPU whose memory was repaired is to be reset when its job has ended, and not before") {
  Watched watched;
  watched.start("exec sleep 600");
  watched.node().log_xid(6, remapped);
  const auto noted = watched.fault("gpu.xid", Remedy::warn, seconds{20});
  REQUIRE(noted);
  CHECK(noted->device == "gpu6");
  CHECK_FALSE(watched.fault("gpu.xid", Remedy::reset, seconds{2}));
  watched.stop();
  const auto fault = watched.fault("gpu.xid", Remedy::reset, milliseconds{1});  // told before
  REQUIRE(fault);
  CHECK(fault->device == "gpu6");
  CHECK_FALSE(fault->stops_job);
  CHECK_THAT(fault->what, ContainsSubstring("XID 63 on gpu6"));
}

TEST_CASE("what killed a rank is looked for at once, and told before the attempt's end") {
  Watched watched;
  JobHealth health = watched_by_nobody();
  const bool is_looked_for = GENERATE(true, false);
  if (!is_looked_for) health.failure = HealthLevel::off;
  watched.start("while [ ! -e " + watched.go() + " ]; do sleep 0.02; done; exit 3", health);
  watched.node().driver_says("gpu3.field.230 2");  // needs a reboot; nothing in the log
  REQUIRE(::system(("touch " + watched.go()).c_str()) == 0);
  REQUIRE(watched.client().wait([&] { return watched.client().ended().contains(0); }));
  watched.stop();
  const auto fault = watched.fault("gpu.recovery_action", Remedy::reboot, milliseconds{1});
  CHECK(fault.has_value() == is_looked_for);
  if (fault) {
    CHECK(fault->device == "gpu3");
    CHECK(fault->stops_job);
  }
}

TEST_CASE("a suspicion after a failure is confirmed before the attempt's end is told") {
  Watched watched;
  watched.start("while [ ! -e " + watched.go() + " ]; do sleep 0.02; done; exit 3");
  watched.node().driver_says("count 7");  // a state: believed after three looks
  REQUIRE(::system(("touch " + watched.go()).c_str()) == 0);
  REQUIRE(watched.client().wait([&] { return watched.client().ended().contains(0); }));
  const auto begun = std::chrono::steady_clock::now();
  watched.stop();
  CHECK(std::chrono::steady_clock::now() - begun < seconds{7});
  CHECK(watched.fault("gpu.count", Remedy::reset, milliseconds{1}));
}

TEST_CASE("an attempt whose ranks did not fail ends without any wait for checks") {
  Watched watched;
  watched.node().hang_call("gpu3.nvmlDeviceGetSerial");
  watched.start("exit 0");
  REQUIRE(watched.client().wait([&] { return watched.client().ended().contains(0); }));
  const auto begun = std::chrono::steady_clock::now();
  watched.stop();
  CHECK(std::chrono::steady_clock::now() - begun < seconds{2});
}

TEST_CASE("a job that is not watched has its node read by nobody, but the log is followed") {
  Watched watched;
  const bool is_watched = GENERATE(true, false);
  watched.start("exec sleep 600", is_watched ? JobHealth{} : watched_by_nobody());
  watched.node().driver_says("gpu3.field.230 2");
  watched.node().log_xid(5, lost_gpu);  // has the driver asked at once where it may be
  REQUIRE(watched.fault("gpu.xid", Remedy::reboot, seconds{20}));
  const auto asked = watched.fault("gpu.recovery_action", Remedy::reboot, seconds{3});
  CHECK(asked.has_value() == is_watched);
}

TEST_CASE("a check that a job skips drains nothing at its gate, and all for the next job's") {
  Watched watched;
  JobHealth health;
  health.skip = {"gpu.recovery_action", "gpu.xid"};
  CHECK(watched.refused(health).empty());
  watched.node().driver_says("gpu3.field.230 2");
  watched.node().log_xid(5, lost_gpu);  // has the driver asked at once
  REQUIRE(watched.fault("gpu.xid", Remedy::reboot, seconds{20}));
  CHECK_FALSE(watched.fault("gpu.recovery_action", Remedy::reboot, seconds{3}));
  CHECK(watched.refused(health).empty());
  JobHealth only;
  only.only = {"gpu.count"};
  CHECK(watched.refused(only).empty());
  const auto checks = watched.refused({});
  CHECK(std::ranges::count(checks, "gpu.recovery_action") == 1);
  CHECK(std::ranges::count(checks, "gpu.xid") == 1);
}

TEST_CASE("a gate that is for some checks alone is failed by these") {
  Watched watched;
  watched.node().driver_says("count 7");
  watched.node().driver_says("gpu3.field.230 2");
  JobHealth health;
  health.only = {"gpu.count"};
  CHECK(watched.refused(health) == std::vector<std::string>{"gpu.count"});
}

TEST_CASE("an agent that is connected is told of another profile, and judges by it") {
  Watched watched;
  WatchHealth other{gpu_profile()};
  other.health->gpu.count = 16;
  watched.client().ask<FaultsTold>(other);
  const auto checks = watched.refused({});
  CHECK(std::ranges::count(checks, "gpu.count") == 1);
}

TEST_CASE("a process on a GPU while the node is measured, and just after, is no leftover") {
  HealthProfile profile = gpu_profile();
  profile.required.push_back("gpu.procs");
  Watched watched(profile);
  watched.node().driver_says("gpu2.procs 4711:1048576");
  JobHealth another;  // its gate reads anew
  another.skip = {"host.time"};
  SECTION("measured") {
    MeasureNode probe;
    probe.id = "p";
    probe.is_probe = true;
    probe.token = "token-of-a-run";
    probe.words = {"tcp-serve", "--port", "18700", "--seconds", "100", "--address", "127.9.8.7"};
    watched.client().send(probe);
    probe.id = "q";
    probe.token = "token-of-another";
    const auto refused = watched.client().ask<ExecEnded>(probe);
    REQUIRE(refused.id == "q");  // the first one runs
    CHECK(watched.refused(another).empty());
    watched.client().ask<ExecEnded>(ExecStop{"p"});
    CHECK(watched.refused({}).empty());
  }
  SECTION("not measured") {
    CHECK(watched.refused(another) == std::vector<std::string>{"gpu.procs"});
  }
}
