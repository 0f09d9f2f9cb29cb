// Measurements of an idle node: alone, never beside ranks, and with a token that nobody can read.
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/catch.h"
#include "tests/launcher/agent/health/measure_alone.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;

namespace {

// Waits for a partner that does not come, on an address that no other test has.
MeasureNode a_probe(const std::string& id, const std::string& token) {
  MeasureNode probe;
  probe.id = id;
  probe.is_probe = true;
  static int made = 0;
  const std::string address = "127." + std::to_string(::getpid() / 250 % 250) + "." +
                              std::to_string(::getpid() % 250) + "." + std::to_string(++made);
  probe.words = {"tcp-serve", "--port", "18700", "--seconds", "100", "--address", address};
  probe.token = token;
  return probe;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream list("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                     "/children");
  std::vector<pid_t> pids;
  for (pid_t pid = 0; list >> pid;) pids.push_back(pid);
  return pids;
}

// The probes that the agent runs.
std::vector<pid_t> probes_of(const TestNode& node) {
  std::vector<pid_t> pids;
  for (const pid_t pid : children_of(node.agent_pid())) {
    const std::string words = read_file("/proc/" + std::to_string(pid) + "/cmdline");
    if (words.find("tcp-serve") != words.npos) pids.push_back(pid);
  }
  return pids;
}

std::string refusal(AgentClient& client, const std::string& id) {
  const auto ended = client.expect<ExecEnded>();
  CHECK(ended.id == id);
  return ended.error;
}

}  // namespace

TEST_CASE("one measurement runs at a time, but the benchmarks of one run together") {
  measure_alone();
  TestNode node;
  AgentClient client = node.begin();
  client.send(a_probe("first", "token-of-one-run"));
  client.send(a_probe("second", "token-of-one-run"));
  REQUIRE(eventually([&] { return probes_of(node).size() == 2; }));
  for (const pid_t pid : probes_of(node)) {
    const std::string words = read_file("/proc/" + std::to_string(pid) + "/cmdline");
    CHECK(words.find("token-of-one-run") == words.npos);
    const std::string environment = read_file("/proc/" + std::to_string(pid) + "/environ");
    CHECK(environment.find("token-of-one-run") == environment.npos);
  }
  client.send(a_probe("other", "token-of-another"));
  CHECK(refusal(client, "other") == "it is being measured already");
  MeasureNode active;
  active.id = "active";
  client.send(active);
  CHECK(refusal(client, "active") == "it is being measured already");

  SECTION("another agent of the host is refused as well, until the benchmarks have ended") {
    TestNode second("n2");
    REQUIRE(second.serve() == 0);
    AgentClient other = second.connect();
    other.hello(second.controller(), second.name());
    other.send(a_probe("theirs", "token-of-one-run"));
    CHECK(refusal(other, "theirs") == "it is being measured already");
    client.send(ExecStop{"first"});
    client.send(ExecStop{"second"});
    CHECK(client.await<ExecEnded>()->status.signal == SIGKILL);
    CHECK(client.await<ExecEnded>()->status.signal == SIGKILL);
    // What the ended ones had started may still be there: until it is gone, the host is claimed.
    int tries = 0;
    CHECK(eventually([&] {
      other.send(a_probe("again-" + std::to_string(++tries), "token-of-one-run"));
      return !probes_of(second).empty();
    }));
  }
  SECTION("a job that comes ends them") {
    CheckNode check;
    check.job = JobId{"job"};
    client.ask<CheckDone>(check);
    CHECK(probes_of(node).empty());
    CHECK(client.await<ExecEnded>()->status.signal == SIGKILL);
    CHECK(client.await<ExecEnded>()->status.signal == SIGKILL);
  }
  SECTION("ranks that begin end them, and beside ranks none begins") {
    client.ask<StartDone>(a_start("exec sleep 600"));
    CHECK(client.await<ExecEnded>()->status.signal == SIGKILL);
    CHECK(client.await<ExecEnded>()->status.signal == SIGKILL);
    CHECK(probes_of(node).empty());
    client.send(a_probe("late", "token-of-one-run"));
    CHECK(refusal(client, "late") == "ranks run there");
  }
}
