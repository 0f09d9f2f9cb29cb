// Resets and reboots that the core has begun reach whoever carries them out, once.
#include "launcher/controller/agents/remediation.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <fstream>

#include "launcher/os/timers.h"
#include "scheduler/apply/apply.h"
#include "tests/catch.h"
#include "tests/launcher/controller/agents.h"

using namespace muster;

namespace {

struct RemedyWorld : Observed, NodeListener {
  boost::asio::io_context io;
  FakeTransport transport;
  State state;
  AsioTimers timers{io};
  std::vector<std::vector<std::string>> run_here;
  std::function<void(const CommandEnded&)> ended_here;
  AgentPool pool{timers, transport, AgentLaunch{}};
  RemediationService desk{timers, state, pool,
                          [this](const auto& argv, Milliseconds, auto done) {
                            run_here.push_back(argv);
                            ended_here = done;
                            return [] {};
                          },
                          *this};
  bool is_ours = false;

  RemedyWorld() { pool.set_listeners({this, &desk}); }
  bool take(const NodeId& node, const FromAgent& message, std::string_view payload) override {
    return is_ours = desk.take(node, message, payload);
  }

  std::shared_ptr<FakeWire> reach(const std::string& agent, std::size_t number) {
    ComputeTarget target;
    pool.await(address_of("n1", "n1"), target, "");
    auto wire = transport.answer(number);
    Welcome welcome;
    welcome.agent_id = agent;
    welcome.boot_id = "boot";
    wire->say(welcome);
    apply(state, {from_ms(1), Observation{LinkUp{{"n1"}, "boot", agent, "n1", ""}}});
    return wire;
  }
  void begin(RemedyStep step, Milliseconds ago = Milliseconds{0}) {
    RemedyBegun begun;
    begun.node = {"n1"};
    begun.id = "r1";
    begun.step = step;
    begun.fault.device = "gpu3";
    begun.argv = {"smi", "-i", "3"};
    begun.agent_id = "agent1";
    const Record record{timers.wall_now() - ago, Decision{begun}};
    apply(state, {record.at, Decision{NodeFaulted{{"n1"}, begun.fault, "gpu.xid", {}}}});
    apply(state, record);
    desk.perform({record});
  }
  template <class What>
  const What& latest() {
    return std::get<What>(observed.back());
  }
};

}  // namespace

TEST_CASE("an agent is asked once on each connection, and what it says is journaled once") {
  RemedyWorld desk;
  auto wire = desk.reach("agent1", 0);
  desk.begin(RemedyStep::reset);
  desk.desk.perform({});
  auto asked = wire->take<RunRemedy>();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].id == "r1");
  CHECK(asked[0].device == "gpu3");
  CHECK(asked[0].argv == std::vector<std::string>{"smi", "-i", "3"});
  CHECK(asked[0].limit > Milliseconds{0});
  CHECK(desk.run_here.empty());
  SECTION("a broken agent says too much") {
    wire->say(RemedyRun{"r1", {1, 0}, "", std::vector<std::string>(99, std::string(9999, 'x'))});
    REQUIRE(desk.observed.size() == 1);
    CHECK(desk.latest<RemedyEnded>().lines.size() == 10);
    CHECK(desk.latest<RemedyEnded>().lines[0].size() == 400);
  }
  SECTION("or speaks of another") {
    wire->say(RemedyRun{"r2", {}, "", {}});
    CHECK(desk.is_ours);
    CHECK(desk.observed.empty());
  }
  SECTION("twice") {
    wire->say(RemedyRun{"r1", {}, "", {}});
    REQUIRE(desk.observed.size() == 1);
    apply(desk.state, {from_ms(3), desk.observed[0]});
    wire->say(RemedyRun{"r1", {}, "", {}});
    CHECK(desk.observed.size() == 1);
    desk.desk.perform({});
    CHECK(wire->take<RunRemedy>().empty());
  }
}

TEST_CASE("a controller that is restarted asks the agent that was meant, and no other") {
  RemedyWorld desk;
  desk.begin(RemedyStep::reset);
  CHECK(desk.observed.empty());
  const std::string agent = GENERATE("agent1", "agent2");
  auto wire = desk.reach(agent, 0);
  desk.desk.perform({});
  CHECK(wire->take<RunRemedy>().size() == (agent == "agent1" ? 1u : 0u));
}

TEST_CASE("what was not begun when a person took the node, or calls it sound, is not begun") {
  RemedyWorld desk;
  desk.begin(RemedyStep::reset);
  const bool drained = GENERATE(true, false);
  apply(desk.state, {from_ms(2), Observation{NodeDrainSet{{"n1"}, drained, "mine", {}}}});
  auto wire = desk.reach("agent1", 0);
  desk.desk.perform({});
  const auto asked = wire->take<RunRemedy>();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].limit == Milliseconds{0});  // it tells whether it was
}

TEST_CASE("what is asked late has less time, and none when its time is over") {
  RemedyWorld desk;
  auto wire = desk.reach("agent1", 0);
  SECTION("late") {
    desk.begin(RemedyStep::reset, Milliseconds{120'000});
    const auto asked = wire->take<RunRemedy>();
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].limit <= Milliseconds{180'000});
  }
  SECTION("too late: its agent may have kept what came of it") {
    desk.begin(RemedyStep::reset, Milliseconds{301'000});
    const auto asked = wire->take<RunRemedy>();
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].limit == Milliseconds{0});
  }
}

TEST_CASE("a command of the controller's host is run when it was begun, and never again") {
  RemedyWorld desk;
  desk.begin(RemedyStep::reboot_from_here);
  REQUIRE(desk.run_here.size() == 1);
  CHECK(desk.run_here[0] == std::vector<std::string>{"smi", "-i", "3"});
  desk.desk.perform({});
  auto wire = desk.reach("agent1", 0);
  desk.desk.perform({});
  CHECK(desk.run_here.size() == 1);
  CHECK(wire->take<RunRemedy>().empty());
  desk.ended_here({{3, 0}, "", {"no such host"}});
  CHECK(desk.latest<RemedyEnded>().status.code == 3);
  CHECK(desk.latest<RemedyEnded>().lines == std::vector<std::string>{"no such host"});
}

// Its parent hears of its end when its tracer lets it: as of one that hangs in the kernel.
TEST_CASE("a command that cannot be ended does not hold up the controller") {
  boost::asio::io_context io;
  AsioTimers timers(io);
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const std::string file = "/tmp/muster-held-" + std::to_string(::getpid());
  ::unlink(file.c_str());
  const pid_t tracer = ::fork();
  if (tracer == 0) {
    pid_t held = 0;
    for (int i = 0; i < 20'000 && held == 0; ++i) {
      std::ifstream(file) >> held;
      ::usleep(1000);
    }
    const char can = ::ptrace(PTRACE_SEIZE, held, nullptr, nullptr) == 0 ? 'y' : 'n';
    if (::write(ready[1], &can, 1) == 1) ::pause();
    ::_exit(0);
  }
  {
    SiteCommands commands(timers);
    std::optional<CommandEnded> ended;
    const std::string held =
        "echo $$ >" + file + ".new; mv " + file + ".new " + file + "; sleep 60";
    commands.run({"sh", "-c", held}, Milliseconds{2000},
                 [&](const CommandEnded& end) { ended = end; });
    char can = 'n';
    ::close(ready[1]);
    REQUIRE(::read(ready[0], &can, 1) == 1);
    if (can == 'n') WARN("this user may trace nobody: the command can be ended");
    const auto began = timers.now();
    while (!ended) io.run_one();
    for (int i = 0; i < 5; ++i) io.run_one();  // looks at it again
    CHECK(timers.now() - began < std::chrono::seconds(20));
    CHECK_THAT(ended->error, ContainsSubstring("did not end within"));
  }
  ::kill(tracer, SIGKILL);
  ::waitpid(tracer, nullptr, 0);
  ::unlink(file.c_str());
  ::close(ready[0]);
}

TEST_CASE("a command of this host says how it ended, without a shell, and has a limit") {
  const auto end_of = [](const std::vector<std::string>& argv, Milliseconds limit) {
    boost::asio::io_context io;
    AsioTimers timers(io);
    SiteCommands commands(timers);
    std::optional<CommandEnded> ended;
    commands.run(argv, limit, [&](const CommandEnded& end) { ended = end; });
    while (!ended) io.run_one();
    return *ended;
  };
  const auto in_time = [&](const std::vector<std::string>& argv) {
    return end_of(argv, Milliseconds{15'000});
  };
  const CommandEnded fails = in_time({"sh", "-c", "echo \"$1\" >&2; exit 4", "x", "$(id)\x01"});
  CHECK(fails.status.code == 4);
  CHECK(fails.error.empty());
  CHECK(fails.lines == std::vector<std::string>{"$(id)\x01"});
  // Of both streams the last words are kept.
  CHECK(in_time({"sh", "-c", "echo done; echo off >&2"}).lines ==
        std::vector<std::string>{"done", "off"});
  // What it leaves in the background is not waited for, and it may write what it will.
  for (const char* script : {"sleep 20 & exit 0", "seq 100000"}) {
    const CommandEnded ended = in_time({"sh", "-c", script});
    CHECK(ended.status.ok());
    CHECK(ended.error.empty());
  }
  const CommandEnded late = end_of({"sleep", "60"}, Milliseconds{100});
  CHECK_THAT(late.error, ContainsSubstring("did not end within"));
  CHECK(late.status.signal == SIGKILL);  // it was begun
  CHECK_FALSE(in_time({"/nowhere/ipmitool"}).error.empty());
}
