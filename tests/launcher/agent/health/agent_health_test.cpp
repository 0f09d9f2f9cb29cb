// What an agent says of its node's health: a fake root stands in for /proc, /sys and /dev.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/os/clocks.h"
#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// A root with one GPU and a kernel log.
class SystemRoot {
 public:
  explicit SystemRoot(const std::string& path) : path_(path) {
    write("proc/driver/nvidia/gpus/0000:5d:00.0/information", "GPU 0\n");
    write("sys/bus/pci/devices/0000:5d:00.0/vendor", "0x10de\n");
    write("sys/bus/pci/devices/0000:5d:00.0/class", "0x030200\n");
    write("dev/kmsg", "");
    ::setenv("MUSTER_SYSROOT", path_.c_str(), 1);
  }
  ~SystemRoot() { ::unsetenv("MUSTER_SYSROOT"); }
  SystemRoot(const SystemRoot&) = delete;

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void log(int xid, const std::string& words) {
    std::ofstream(path_ + "/dev/kmsg", std::ios::app)
        << "3," << ++sequence_ << "," << raw_time().count()
        << ",-;NVRM: Xid (PCI:0000:5d:00): " << xid << ", " << words << "\n";
  }

 private:
  std::string path_;
  int sequence_ = 100;
};

// The next that tells of this Xid.
std::optional<NodeFault> await_xid(AgentClient& client, const std::string& xid, seconds limit) {
  std::optional<NodeFault> found;
  client.wait(
      [&] {
        const auto told = client.await<FaultsTold>(milliseconds{1});
        if (!told) return false;
        for (const NodeFault& fault : told->faults) {
          if (fault.what.starts_with("XID " + xid + " ")) found = fault;
        }
        return found.has_value();
      },
      limit);
  return found;
}

CheckNode a_check() {
  CheckNode check;
  check.job = JobId{"job"};
  check.with_health = true;
  return check;
}

bool names(const CheckDone& done, const std::string& check) {
  return std::any_of(done.failures.begin(), done.failures.end(),
                     [&](const CheckFailure& failure) { return failure.check == check; });
}

}  // namespace

TEST_CASE("a GPU that falls off the bus is told within two seconds, and fails the next gate") {
  TestNode node;
  SystemRoot root(node.home() + "/root");
  AgentClient client = node.begin();
  client.send(a_check());
  auto gate = client.await<CheckDone>();
  REQUIRE(gate);
  CHECK_FALSE(names(*gate, "gpu.xid"));
  const auto begun = std::chrono::steady_clock::now();
  root.log(79, "pid=1, GPU has fallen off the bus.");
  const auto fault = await_xid(client, "79", seconds{20});
  REQUIRE(fault);
  CHECK(std::chrono::steady_clock::now() - begun < seconds{2});
  CHECK(fault->check == "gpu.xid");
  CHECK(fault->device == "0000:5d:00.0");  // no driver's library gives it a number
  CHECK(fault->remedy == Remedy::reboot);
  CHECK(fault->stops_job);
  CHECK(fault->enforced);
  CHECK_FALSE(fault->in_doubt);
  REQUIRE(fault->evidence.size() >= 1);
  CHECK_THAT(fault->evidence[0], ContainsSubstring("fallen off the bus"));
  client.send(a_check());
  gate = client.await<CheckDone>();
  REQUIRE(gate);
  CHECK(names(*gate, "gpu.xid"));

  SECTION("skipped by a job, it does not") {
    CheckNode check = a_check();
    check.skip = {"gpu.xid"};
    client.send(check);
    gate = client.await<CheckDone>();
    REQUIRE(gate);
    CHECK_FALSE(names(*gate, "gpu.xid"));
  }
  SECTION("the next agent still knows, and says it once") {
    node.kill_agent();
    AgentClient later = node.begin();
    const auto again = await_xid(later, "79", seconds{10});
    REQUIRE(again);
    CHECK(again->id == fault->id);
    CHECK(again->since == fault->since);
  }
  SECTION("a person says that it is mended") {
    client.send(FaultsFixed{{fault->id}});
    CHECK(client.wait([&] {
      const auto told = client.await<FaultsTold>(milliseconds{1});
      return told && told->faults.empty();
    }));
  }
}

TEST_CASE("an error of memory that was not contained puts what was computed in doubt") {
  TestNode node;
  SystemRoot root(node.home() + "/root");
  AgentClient client = node.begin();
  root.log(95, "pid=1, Uncontained ECC error.");
  const auto fault = await_xid(client, "95", seconds{20});
  REQUIRE(fault);
  CHECK(fault->in_doubt);
  CHECK(fault->stops_job);
}

TEST_CASE("what our own kill leaves in the log says nothing against the node") {
  TestNode node;
  SystemRoot root(node.home() + "/root");
  AgentClient client = node.begin();
  client.ask<StartDone>(a_start("sleep 600"));
  client.ask<AttemptClean>(a_stop(milliseconds{0}));
  root.log(43, "pid=1, Ch 00000010");
  root.log(45, "pid=1, Ch 00000010");
  root.log(79, "pid=1, GPU has fallen off the bus.");
  const auto fault = await_xid(client, "79", seconds{20});
  REQUIRE(fault);
  const auto gate = client.ask<CheckDone>(a_check());
  for (const CheckFailure& failure : gate.failures) {
    CHECK_THAT(failure.message, !ContainsSubstring("XID 4"));
  }
}

TEST_CASE(
    "a file that does not answer takes neither the gate's time nor the other checks with it") {
  TestNode node;
  SystemRoot root(node.home() + "/root");
  const std::string stuck = node.home() + "/root/sys/bus/pci/devices/0000:5d:00.0/config";
  REQUIRE(::system(("mkfifo " + stuck).c_str()) == 0);
  AgentClient client = node.begin();
  const auto begun = std::chrono::steady_clock::now();
  CheckNode check = a_check();
  check.now_ms =
      to_ms(std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now()));
  const auto gate = client.ask<CheckDone>(check);
  CHECK_FALSE(names(gate, "host.clock"));  // the wait is no skew
  CHECK(std::chrono::steady_clock::now() - begun < seconds{10});
  root.log(79, "pid=1, GPU has fallen off the bus.");
  CHECK(await_xid(client, "79", seconds{20}));
}
