// Agents that stand still: stopped, or held in the kernel. Their keeper has the lease too.
#include <csignal>
#include <filesystem>
#include <utility>

#include "launcher/agent/node/process_scan.h"
#include "runtime/protocol/lease.h"
#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;

namespace {

constexpr Milliseconds short_lease{1500};

// A rank and a process that left its session and its environment; both append to `marks` as long
// as they run.
std::string writers(const std::string& marks) {
  return "(env -i /usr/bin/setsid /bin/sh -c 'exec >/dev/null 2>&1; while :; do echo orphan >>" +
         marks + "; /bin/sleep 0.02; done' &); echo up; while :; do echo rank >>" + marks +
         "; sleep 0.02; done";
}

struct Standing {
  Standing() : marks(node.home() + "/marks") {
    REQUIRE(node.serve() == 0);
    client.emplace(node.socket_path());
    client->acknowledges = false;
    client->hello(node.controller(), node.name(), short_lease);
    client->ask<StartDone>(a_start(writers(marks)));
    REQUIRE(client->wait([&] { return client->output(0) == "up\n"; }));
    const auto grows = [&, seen = std::uintmax_t{0}]() mutable {
      return std::exchange(seen, size()) > 0 && size() > 200;
    };
    REQUIRE(eventually(grows));
    agent = node.agent_pid();
    REQUIRE(eventually([&] { return (keeper = node.keeper_pid()) > 0; }));
    REQUIRE(eventually([&] { return (standby = child_of(keeper)) > 0; }));
  }
  ~Standing() {
    for (const pid_t pid : {agent, keeper, standby}) ::kill(pid, SIGCONT);
  }
  pid_t child_of(pid_t parent) const {
    for (const ProcessInfo& process : scan_processes()) {
      if (process.parent == parent) return process.pid;
    }
    return 0;
  }
  std::uintmax_t size() const {
    std::error_code none;
    const auto bytes = std::filesystem::file_size(marks, none);
    return none ? 0 : bytes;
  }
  // Nothing was written for longer than a turn of the writers takes on a busy machine.
  bool is_still() const {
    const auto before = size();
    return !eventually([&] { return size() != before; }, std::chrono::milliseconds{500});
  }
  TestNode node;
  std::string marks;
  std::optional<AgentClient> client;
  pid_t agent = 0;
  pid_t keeper = 0;
  pid_t standby = 0;
};

}  // namespace

TEST_CASE("the keeper ends the ranks of an agent that stands still beyond its lease, then it") {
  Standing standing;
  REQUIRE(::kill(standing.agent, SIGSTOP) == 0);
  REQUIRE(eventually([&] { return !is_running(standing.agent); }));
  CHECK(standing.is_still());
  REQUIRE(eventually([&] { return !is_running(standing.keeper); }));
  CHECK_THAT(read_file(standing.node.run_directory() + "/agent.log"),
             ContainsSubstring("stood still beyond its lease"));
  // All that was written is there for the next agent.
  REQUIRE(standing.node.serve() == 0);
  AgentClient next = standing.node.connect();
  next.hello(standing.node.controller(), standing.node.name());
  next.ask<AttemptClean>(a_stop());
  CHECK(next.output(0) == "up\n");
}

TEST_CASE("an agent that stood still for less than its lease keeps its ranks") {
  Standing standing;
  const auto pong = standing.client->ask<Pong>(Ping{0, std::nullopt});
  standing.client->send(Ping{0, pong.boot_ms});
  REQUIRE(::kill(standing.agent, SIGSTOP) == 0);
  const auto before = standing.size();
  REQUIRE(eventually([&] { return standing.size() > before + 100; }));
  REQUIRE(::kill(standing.agent, SIGCONT) == 0);
  standing.client->ask<AttemptClean>(a_stop(std::chrono::milliseconds{100}));
  CHECK(is_running(standing.agent));
}

TEST_CASE("a keeper that stands still is replaced by one that does not") {
  Standing standing;
  REQUIRE(::kill(standing.keeper, SIGSTOP) == 0);
  REQUIRE(eventually([&] { return !is_running(standing.keeper); }));
  REQUIRE(eventually([&] {  // the dead one is seen until it is reaped
    const pid_t next = standing.node.keeper_pid();
    return next > 0 && next != standing.keeper && is_running(next);
  }));
  REQUIRE(::kill(standing.agent, SIGSTOP) == 0);
  REQUIRE(eventually([&] { return !is_running(standing.agent); }));
  CHECK(standing.is_still());
}

TEST_CASE("ranks end with their lease although agent and keeper stand still or are dead") {
  const int how = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(how);
  Standing standing;
  REQUIRE(::kill(standing.agent, SIGSTOP) == 0);
  REQUIRE(::kill(standing.keeper, how) == 0);
  REQUIRE(eventually([&] { return !is_running(standing.agent); }));
  CHECK(standing.is_still());
  REQUIRE(eventually([&] { return !is_running(standing.standby); }));
}

TEST_CASE("ranks see their lease run out while all that ends them stands still, and end after it") {
  Standing standing;
  const auto environment = [&] {
    for (const ProcessInfo& process : scan_processes()) {
      const std::string block = read_process_environment(process.pid);
      if (process.parent == standing.agent && environment_entry(block, "MUSTER_LEASE")) {
        return block;
      }
    }
    return std::string();
  }();
  const auto path = environment_entry(environment, "MUSTER_LEASE");
  REQUIRE(path);
  const auto lease = Lease::open(*path);
  REQUIRE(lease);
  CHECK(lease->until() > boot_time());
  REQUIRE(::kill(standing.agent, SIGSTOP) == 0);
  // The standby first: it would go on in place of a keeper that is stopped.
  REQUIRE(::kill(standing.standby, SIGSTOP) == 0);
  REQUIRE(::kill(standing.keeper, SIGSTOP) == 0);
  REQUIRE(eventually([&] { return boot_time() > lease->until() + std::chrono::seconds{2}; }));
  CHECK_FALSE(standing.is_still());  // they may write, and cannot be stopped by anybody here
  REQUIRE(::kill(standing.keeper, SIGCONT) == 0);
  REQUIRE(eventually([&] { return !is_running(standing.agent); }));
  CHECK(standing.is_still());
}
