// What must hold when ranks resist, connections break and agents die.
#include <unistd.h>
#include <csignal>
#include <fstream>

#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;

namespace {

void start(AgentClient& client, const StartRanks& request) {
  const auto done = client.ask<StartDone>(request);
  REQUIRE(done.error == "");
}

// The numbers that a rank has printed, one a line.
std::vector<pid_t> printed_pids(AgentClient& client, std::size_t count) {
  std::vector<pid_t> pids;
  REQUIRE(client.wait([&] {
    pids.clear();
    const std::string& text = client.output(0);
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
         at = end + 1)
      pids.push_back(static_cast<int>(std::strtol(text.c_str() + at, nullptr, 10)));
    return pids.size() >= count;
  }));
  return pids;
}

// The agent's clock; 0: it has ended.
std::int64_t now_there(AgentClient& client) {
  client.send(Ping{1});
  const auto pong = client.await<Pong>();
  return pong ? pong->boot_ms : 0;
}

// A process that has nothing to do with the agent.
struct Decoy {
  Decoy() : pid(::fork()) {
    if (pid == 0) {
      ::execl("/bin/sleep", "sleep", "1000", nullptr);
      ::_exit(1);
    }
  }
  ~Decoy() {
    ::kill(pid, SIGKILL);
    eventually([this] { return !is_running(pid); });
  }
  pid_t pid;
};

}  // namespace

TEST_CASE("stopping ends every process of the attempt and no other") {
  const char* command = GENERATE(
      // ignores the polite signal
      "trap '' TERM; echo $$; while :; do sleep 1000; done",
      // leaves its session and its parent
      "(setsid sh -c 'echo $$; exec sleep 1000' &) ; exec sleep 1000",
      // leaves both and forgets its environment
      "(env -i /usr/bin/setsid /bin/sh -c '/bin/sh -c \"echo \\$\\$; exec /bin/sleep 1000\" &') ; "
      "exec sleep 1000");
  TestNode node;
  Decoy decoy;
  AgentClient client = node.begin();
  start(client, a_start(command));
  const auto pids = printed_pids(client, 1);
  REQUIRE(is_running(pids[0]));
  const auto clean = client.ask<AttemptClean>(a_stop(std::chrono::milliseconds{300}));
  CHECK(clean.unkillable.empty());
  CHECK_FALSE(is_running(pids[0]));
  CHECK(is_running(decoy.pid));
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  CHECK(client.ended()[0].asked_to_stop);
}

TEST_CASE("a rank that saves in its grace is waited for, its workers are left to it") {
  TestNode node;
  AgentClient client = node.begin();
  start(client, a_program("sleep 1000 & w=$!; trap 'sleep 0.3; kill -0 $w && echo saved; exit 3' "
                          "TERM; echo ready; wait"));
  REQUIRE(client.wait([&] { return client.output(0) == "ready\n"; }));
  client.ask<AttemptClean>(a_stop());
  CHECK(client.output(0) == "ready\nsaved\n");
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  CHECK(client.ended()[0].asked_to_stop);
}

TEST_CASE("a broken connection loses and repeats nothing") {
  TestNode node;
  REQUIRE(node.serve() == 0);
  std::string whole;
  const std::size_t total = 60'000'000;
  {
    AgentClient client = node.greeted();
    start(client, a_start("seq 1 100000000 | head -c 60000000; echo end"));
    REQUIRE(client.wait([&] { return client.output(0).size() > 5'000'000; }));
    whole = client.output(0);
  }
  AgentClient client = node.connect();
  client.skip(0, whole);  // before the greeting: output may come right behind it
  CHECK(client.hello(node.controller(), node.name()).holds_attempts);
  client.send(
      OutputAck{JobId{"job"}, AttemptId{}, RankId{0}, static_cast<std::int64_t>(whole.size())});
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  client.ask<AttemptClean>(a_stop());
  CHECK(client.fault == "");
  CHECK(client.output(0).size() == total + 4);
  std::string expected;
  for (int i = 1; expected.size() < total; ++i) expected += std::to_string(i) + "\n";
  expected.resize(total);
  CHECK((client.output(0) == expected + "end\n"));
}

TEST_CASE("a killed agent takes its ranks along and the next one delivers their output") {
  const bool is_tree = GENERATE(false, true);
  TestNode node;
  Decoy decoy;
  REQUIRE(node.serve() == 0);
  pid_t rank = 0;
  std::string first_agent;
  {
    AgentClient client = node.connect();
    client.acknowledges = false;
    first_agent = client.hello(node.controller(), node.name()).agent_id;
    start(client, a_start(is_tree ? "sh -c 'trap \"\" TERM; echo $$; sleep 1000; true'; true"
                                  : "echo $$; echo more; exec sleep 1000"));
    rank = printed_pids(client, 1)[0];
    node.kill_agent();
  }
  CHECK(eventually([&] { return !is_running(rank); }));
  CHECK(is_running(decoy.pid));
  REQUIRE(node.serve() == 0);
  AgentClient client = node.connect();
  const Welcome welcome = client.hello(node.controller(), node.name());
  CHECK(welcome.agent_id != first_agent);
  CHECK(welcome.holds_attempts);
  REQUIRE(client.wait([&] { return !client.output(0).empty(); }));
  CHECK(client.output(0).starts_with(std::to_string(rank) + "\n"));
  client.ask<AttemptClean>(a_stop());
  client.send(ForgetAttempt{JobId{"job"}, AttemptId{}});
  client.send(ForgetJob{JobId{"job"}, true});
  CHECK(eventually([&] { return ::access(node.job_directory("job").c_str(), F_OK) != 0; }));
}

TEST_CASE("an end from before a reboot has no time on the clock of this boot") {
  const bool is_same_boot = GENERATE(true, false);
  TestNode node;
  REQUIRE(node.serve() == 0);
  {
    AgentClient client = node.greeted();
    start(client, a_start("exit 3"));
    REQUIRE(client.await<RankEnded>());
    node.kill_agent();
  }
  const std::string exits = node.run_directory() + "/attempts/job/0/exits";
  if (!is_same_boot) {
    std::string line = read_file(exits);
    line.replace(line.rfind(' '), std::string::npos, " another-boot\n");
    std::ofstream(exits) << line;
  }
  AgentClient client = node.begin();
  const auto ended = client.expect<RankEnded>();
  CHECK(ended.status.code == 3);
  CHECK(ended.span.has_value() == is_same_boot);
}

TEST_CASE("a silent controller's lease ends its ranks and the agent") {
  TestNode node;
  REQUIRE(node.serve() == 0);
  const pid_t agent = node.agent_pid();
  AgentClient client = node.connect();
  const Welcome welcome = client.hello(node.controller(), node.name(), Milliseconds{3000});
  client.send(Ping{1, welcome.boot_ms});
  start(client, a_start("trap '' TERM; echo $$; while :; do sleep 1000; done"));
  const pid_t rank = printed_pids(client, 1)[0];
  CHECK(eventually([&] { return !is_running(rank); }));
  CHECK(eventually([&] { return !is_running(agent); }));
}

TEST_CASE("a controller that comes with a much shorter lease finds time to renew it") {
  TestNode node;
  REQUIRE(node.serve() == 0);
  auto earlier = node.connect();
  const Welcome first = earlier.hello(node.controller(), node.name());
  REQUIRE(eventually([&] { return now_there(earlier) > first.boot_ms + 2000; }));
  auto controller = node.connect();
  Welcome welcome =
      controller.hello(node.controller(), node.name(), std::chrono::milliseconds(1500));
  // That connection may break before a word over it was heard; the next one brings the same lease.
  if (GENERATE(false, true)) {
    controller = node.connect();
    welcome = controller.hello(node.controller(), node.name(), std::chrono::milliseconds(1500));
  }
  // The agent looks at its lease twice a second.
  REQUIRE(eventually([&] {
    const auto now = now_there(controller);
    return now == 0 || now > welcome.boot_ms + 700;
  }));
  controller.send(Ping{1, welcome.boot_ms + 700});
  CHECK(now_there(controller) != 0);
  CHECK(is_running(node.agent_pid()));
}

TEST_CASE("a shorter lease that is brought late does not outlive the earlier one") {
  TestNode node;
  REQUIRE(node.serve() == 0);
  const pid_t agent = node.agent_pid();
  auto earlier = node.connect();
  const Welcome first =
      earlier.hello(node.controller(), node.name(), std::chrono::milliseconds(3000));
  // Nothing is heard of the agent from the first word on; the next controller comes late.
  REQUIRE(eventually([&] { return now_there(earlier) > first.boot_ms + 2000; }));
  auto later = node.connect();
  const Welcome second =
      later.hello(node.controller(), node.name(), std::chrono::milliseconds(2900));
  REQUIRE(second.boot_ms < first.boot_ms + 3000);
  std::int64_t newest = second.boot_ms;
  REQUIRE(eventually([&] {
    const std::int64_t now = now_there(later);
    newest = std::max(newest, now);
    return now == 0;
  }));
  CHECK(eventually([&] { return !is_running(agent); }));
  CHECK(newest < first.boot_ms + 3000 + 700);  // it looks twice a second
}

TEST_CASE("frames that the network held back do not renew the lease, words that were heard do") {
  const bool is_heard = GENERATE(false, true);
  TestNode node;
  REQUIRE(node.serve() == 0);
  const pid_t agent = node.agent_pid();
  AgentClient client = node.connect();
  std::int64_t heard_ms = client.hello(node.controller(), node.name(), Milliseconds{1500}).boot_ms;
  CHECK(heard_ms > 0);
  const auto over = std::chrono::steady_clock::now() + std::chrono::seconds{4};
  while (std::chrono::steady_clock::now() < over && is_running(agent)) {
    client.send(is_heard ? Ping{1, heard_ms} : Ping{1});
    if (const auto pong = client.await<Pong>(std::chrono::milliseconds{100})) {
      heard_ms = pong->boot_ms;
    }
    client.take(std::chrono::milliseconds{50});
  }
  CHECK(is_running(agent) == is_heard);
}

TEST_CASE("a second serve on the same directory is quiet and changes nothing") {
  TestNode node;
  REQUIRE(node.serve() == 0);
  const pid_t agent = node.agent_pid();
  CHECK(node.serve() == 0);
  CHECK(node.agent_pid() == agent);
}
