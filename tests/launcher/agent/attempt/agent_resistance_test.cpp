// Processes and peers that do what no one expects: ends of threads, killed keepers, commands that
// do not read, daemons asked for twice.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/agent/keeper/processes.h"
#include "launcher/agent/node/child_tasks.h"
#include "launcher/agent/node/peer.h"
#include "launcher/agent/node/process_scan.h"
#include "launcher/wire/message_codec.h"
#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"
#include "tests/skip.h"

using namespace muster;

namespace {

// With an mpirun that asks for nothing, and a daemon that runs until there is the file `go`.
StartRanks an_mpi_start(const TestNode& node, int node_index) {
  const std::string tools = node.home() + "/tools";
  std::filesystem::create_directories(tools);
  std::ofstream(tools + "/mpirun") << "#!/bin/sh\nexec sleep 1000\n";
  std::ofstream(tools + "/orted") << "#!/bin/sh\necho ran >>\"$HERE/ran\"\n"
                                     "until [ -e \"$HERE/go\" ]; do sleep 0.02; done; exit 3\n";
  for (const char* tool : {"/mpirun", "/orted"}) {
    std::filesystem::permissions(tools + tool, std::filesystem::perms::owner_all);
  }
  StartRanks start = a_start("sleep 1000", 0);
  start.environment = {{"PATH", tools + ":" + std::getenv("PATH")}, {"HERE", node.home()}};
  start.node_index = node_index;
  start.mpi = MpiLaunch{{"local-0", "local-1"}, 1};
  start.ranks.push_back({RankId{node_index}, 0, {}});
  return start;
}

// Of a line like "4711\n"; 0 while there is none.
pid_t pid_in(const std::string& text) {
  pid_t pid = 0;
  if (text.find('\n') != text.npos) std::from_chars(text.data(), text.data() + text.size(), pid);
  return pid;
}

// Of a child task; stopped at once where that is wanted.
Result<std::string> outcome_of(ChildTasks::Work work, Milliseconds limit, bool is_stopped = false) {
  boost::asio::io_context io;
  ChildTasks tasks(io);
  std::optional<Result<std::string>> answer;
  const auto id =
      tasks.run(std::move(work), limit, [&](Result<std::string> got) { answer = std::move(got); });
  if (is_stopped) tasks.stop(id);
  io.run();
  return answer.value();
}

std::string falls_silent(const ChildTasks::Tell& tell) {
  tell("code/big.bin");
  ::pause();
  return {};
}

}  // namespace

TEST_CASE("stopping ends a rank whose main thread has ended before the others") {
  TestNode node;
  AgentClient client = node.begin();
  client.ask<StartDone>(
      a_start("exec python3 -c 'import ctypes, os, threading, time\n"
              "threading.Thread(target=lambda: time.sleep(1000)).start()\n"
              "print(os.getpid(), flush=True)\n"
              "ctypes.CDLL(None).syscall(60, 0)'"));
  pid_t rank = 0;
  REQUIRE(client.wait([&] {
    rank = pid_in(client.output(0));
    const auto process = rank > 0 ? read_process(rank) : std::nullopt;
    return process && process->state == 'Z';
  }));
  CHECK(is_running(rank));
  client.ask<AttemptClean>(a_stop(std::chrono::milliseconds{200}));
  CHECK_FALSE(is_running(rank));
}

// New session, empty environment, no pipe of ours, dead parent: only the kernel's list has it.
constexpr const char* unmarked =
    "(env -i /usr/bin/setsid /bin/sh -c 'echo $$; exec >/dev/null 2>&1; exec /bin/sleep 1000' &); "
    "exec sleep 1000";

bool has_control_groups() {
  char pattern[] = "/tmp/muster-agent-group.XXXXXX";
  REQUIRE(::mkdtemp(pattern) != nullptr);
  const auto group = AttemptGroup::make("test-" + std::to_string(::getpid()), pattern);
  if (group) group->remove();
  std::filesystem::remove_all(pattern);
  return group.has_value();
}

TEST_CASE("a process without any mark is ended with its control group, the agent dead or not") {
  if (!has_control_groups()) {
    skip_test("no control group may be made here");
    return;
  }
  TestNode node;
  AgentClient client = node.begin();
  client.send(a_start(unmarked));
  client.send(a_start("exec sleep 1000", 1, "other"));  // so that nobody takes orphans
  REQUIRE(client.wait([&] { return pid_in(client.output(0)) > 0; }));
  const pid_t hidden = pid_in(client.output(0));
  const auto group = AttemptGroup::noted(node.run_directory() + "/attempts/job/0");
  REQUIRE(group);
  CHECK(group->members().contains(hidden));
  SECTION("stopped") {
    client.ask<AttemptClean>(a_stop(std::chrono::milliseconds{100}));
    CHECK_FALSE(is_running(hidden));
  }
  SECTION("by the keeper") {
    node.kill_agent();
    CHECK(eventually([&] { return !is_running(hidden); }));
  }
  CHECK(eventually([&] { return !std::filesystem::exists(group->path()); }));
}

TEST_CASE("a keeper that is killed is replaced while there are ranks") {
  TestNode node;
  REQUIRE(node.serve() == 0);
  CHECK(node.keeper_pid() == 0);  // nothing to keep yet
  AgentClient client = node.greeted();
  client.send(a_start("(setsid sh -c 'echo $$; exec sleep 1000' &) ; exec sleep 1000"));
  REQUIRE(client.await<StartDone>());
  REQUIRE(client.wait([&] { return pid_in(client.output(0)) > 0; }));
  const pid_t orphan = pid_in(client.output(0));
  pid_t first = 0;
  REQUIRE(eventually([&] { return (first = node.keeper_pid()) > 0; }));
  ::kill(first, SIGKILL);
  REQUIRE(eventually([&] { return node.keeper_pid() > 0 && node.keeper_pid() != first; }));
  REQUIRE(is_running(orphan));
  node.kill_agent();
  CHECK(eventually([&] { return !is_running(orphan); }));
}

TEST_CASE("keepers that are killed again and again are replaced at once, not with the next tick") {
  TestNode node;
  AgentClient client = node.begin();
  client.ask<StartDone>(a_start("exec sleep 1000"));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 7; ++i) {
    pid_t keeper = 0;
    REQUIRE(eventually([&] { return (keeper = node.keeper_pid()) > 0; }));
    ::kill(keeper, SIGKILL);
    REQUIRE(eventually([&] { return !is_running(keeper); }));
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds{2000});
  client.ask<AttemptClean>(a_stop(std::chrono::milliseconds{0}));
}

TEST_CASE("a keeper whose home was removed ends what the agent left, and makes no home") {
  TestNode node;
  AgentClient client = node.begin();
  client.send(a_start("echo $$; exec sleep 1000"));
  REQUIRE(client.await<StartDone>());
  REQUIRE(client.wait([&] { return pid_in(client.output(0)) > 0; }));
  const pid_t rank = pid_in(client.output(0));
  const pid_t agent = node.agent_pid();
  pid_t keeper = 0;
  REQUIRE(eventually([&] { return (keeper = node.keeper_pid()) > 0; }));
  REQUIRE(::kill(agent, SIGSTOP) == 0);  // it would write into its home
  std::filesystem::remove_all(node.home());
  ::kill(agent, SIGKILL);
  CHECK(eventually([&] { return !is_running(rank) && !is_running(keeper); }));
  CHECK_FALSE(std::filesystem::exists(node.home()));
}

TEST_CASE("what an earlier agent left to be removed is removed by the next one") {
  TestNode node;
  const std::filesystem::path left = node.run_directory() + "/trash.earlier.1";
  std::filesystem::create_directories(left / "logs");
  REQUIRE(node.serve() == 0);
  CHECK(eventually([&] { return !std::filesystem::exists(left); }));
}

TEST_CASE("a command that does not read its input is ended before it fills the memory") {
  TestNode node;
  AgentClient client = node.begin();
  client.ask<StartDone>(a_start("exec sleep 1000"));
  client.send(ExecStart{"e", JobId{"job"}, AttemptId{}, RankId{0}, {"sleep", "1000"}});
  const std::string piece(4 << 20, 'x');
  for (int i = 0; i < 17; ++i) client.send(ExecInput{"e"}, piece);
  const auto ended = client.expect<ExecEnded>();
  CHECK_THAT(ended.error, ContainsSubstring("did not read its input"));
  client.ask<AttemptClean>(a_stop(std::chrono::milliseconds{0}));
}

TEST_CASE("a daemon of mpirun that is asked for again is not started again") {
  TestNode node("local-1");
  AgentClient client = node.begin();
  const auto started = client.ask<StartDone>(an_mpi_start(node, 1));
  REQUIRE(started.error == "");
  const std::string go = node.home() + "/go";
  const std::string ran = node.home() + "/ran";
  const std::string command = "orted -mca ess \"env\"";
  client.send(RemoteStart{"r1", JobId{"job"}, AttemptId{}, command});
  REQUIRE(eventually([&] { return read_file(ran) == "ran\n"; }));
  client = node.greeted();
  client.send(RemoteStart{"r2", JobId{"job"}, AttemptId{}, command});
  std::ofstream(go).put('\n');
  auto ended = client.await<RemoteStartEnded>();
  REQUIRE(ended);
  CHECK(ended->ticket == "r2");
  CHECK(ended->status.code == 3);
  client.send(RemoteStart{"r3", JobId{"job"}, AttemptId{}, command});  // its end was not heard
  ended = client.await<RemoteStartEnded>();
  REQUIRE(ended);
  CHECK(ended->ticket == "r3");
  CHECK(read_file(ran) == "ran\n");
}

TEST_CASE("what mpirun asked for over a lost connection is asked for again over the next") {
  TestNode node("local-0");
  AgentClient client = node.begin();
  client.ask<StartDone>(an_mpi_start(node, 0));
  auto mpi_start = connect_to_agent(node.socket_path());
  REQUIRE(mpi_start);
  const RemoteStartAsked asks{"4711", JobId{"job"}, AttemptId{}, "local-1", "orted"};
  REQUIRE(write_all(mpi_start->get(), encode(FromAgent{asks})));
  const auto first = client.expect<RemoteStartAsked>();
  client = node.greeted();
  const auto again = client.expect<RemoteStartAsked>();
  CHECK(again.ticket == first.ticket);
  CHECK(again.command == "orted");
}

TEST_CASE("each mpi-start is told the end of its own daemon") {
  TestNode node("local-0");
  AgentClient client = node.begin();
  client.ask<StartDone>(an_mpi_start(node, 0));
  for (const int code : {3, 4}) {
    auto mpi_start = connect_to_agent(node.socket_path());
    REQUIRE(mpi_start);
    const RemoteStartAsked asks{"4711", JobId{"job"}, AttemptId{}, "local-1", "orted"};
    REQUIRE(write_all(mpi_start->get(), encode(FromAgent{asks})));
    const auto asked = client.expect<RemoteStartAsked>();
    client.send(RemoteStartEnded{asked.ticket, ExitStatus{code, 0}, "over"});
    const timeval patience{10, 0};
    ::setsockopt(mpi_start->get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::string answer(65536, '\0');
    const ssize_t got = ::recv(mpi_start->get(), answer.data(), answer.size(), 0);
    REQUIRE(got > 0);
    const std::string told(answer.data(), static_cast<std::size_t>(got));
    CHECK(told == encode(ToAgent{RemoteStartEnded{asked.ticket, ExitStatus{code, 0}, "over"}}));
  }
}

TEST_CASE("an attempt that nobody started here is not held because of a late daemon") {
  TestNode node;
  REQUIRE(node.serve() == 0);
  const pid_t agent = node.agent_pid();
  AgentClient client = node.greeted();
  const auto refused =
      client.ask<RemoteStartEnded>(RemoteStart{"r1", JobId{"gone"}, AttemptId{}, "true"});
  CHECK(refused.status.code == 255);
  client.send(Retire{});
  CHECK(eventually([&] { return !is_running(agent); }));
}

TEST_CASE("a child that falls silent is ended and says where it was") {
  const auto answer = outcome_of(falls_silent, Milliseconds{300});
  REQUIRE_FALSE(answer);
  CHECK_THAT(answer.error().message, ContainsSubstring("last at 'code/big.bin'"));
}

TEST_CASE("a child that goes on telling may take longer than its limit") {
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = outcome_of(
      [begin](const ChildTasks::Tell& tell) {
        while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds{3500}) {
          ::usleep(20'000);
          tell("a\nb");
        }
        return std::string("PA\0.", 4);
      },
      Milliseconds{2500});
  REQUIRE(answer);
  CHECK(*answer == std::string("PA\0.", 4));
}

TEST_CASE("a child that is stopped gives an error and no answer") {
  CHECK_FALSE(outcome_of(falls_silent, Milliseconds{60000}, true));
}
