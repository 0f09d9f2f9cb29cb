// Who lets ranks run, and until when: the agent's lease, its keeper's turn, the end of the host.
#include "launcher/agent/lease.h"
#include "tests/catch.h"
#include "tests/launcher/agent/fake_host.h"

using namespace muster;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a lease counts from the newest word that the controller has got") {
  const BootTime start = seconds{1000};
  AgentLease lease(start);
  CHECK(lease.end() == start + seconds{60});  // for a controller that has not greeted yet
  lease.heard(start + seconds{10}, start + seconds{12});
  CHECK(lease.end() == start + seconds{70});
  lease.heard(start + seconds{5}, start + seconds{13});  // of an older connection
  CHECK(lease.end() == start + seconds{70});
  lease.heard(start + seconds{900}, start + seconds{20});  // no word of this agent's
  CHECK(lease.end() == start + seconds{80});
}

TEST_CASE("a shorter lease counts from the greeting, and never longer than the earlier one") {
  const BootTime start = seconds{1000};
  AgentLease lease(start);
  lease.greeted(seconds{20}, start + seconds{30});
  CHECK(lease.end() == start + seconds{50});
  AgentLease nearly_over(start);
  nearly_over.greeted(seconds{20}, start + seconds{55});
  CHECK(nearly_over.end() == start + seconds{60});
}

TEST_CASE(
    "a longer lease counts from the first renewal: the controller may not know of it before") {
  const BootTime start = seconds{1000};
  AgentLease lease(start);
  lease.greeted(seconds{20}, start);
  lease.greeted(seconds{60}, start + seconds{1});
  CHECK(lease.end() == start + seconds{20});
  CHECK(lease.agreed() == seconds{60});
  SECTION("on that connection") {
    lease.heard(start + seconds{1}, start + seconds{2});
    CHECK(lease.end() == start + seconds{61});
  }
  SECTION("not when the next greeting, on another, takes it back") {
    lease.greeted(seconds{20}, start + seconds{3});
    lease.heard(start + seconds{3}, start + seconds{4});
    CHECK(lease.end() == start + seconds{23});
    CHECK(lease.agreed() == seconds{20});
  }
}

TEST_CASE("ranks are killed when the lease is over, and not a moment sooner") {
  FakeHost host;
  host.hello(seconds{20});
  const pid_t rank = host.start();
  CHECK(host.lease->until() == host.clock.boot() + seconds{20});
  host.pass(seconds{20});
  CHECK(host.processes.sent_to(rank).empty());
  CHECK_FALSE(host.is_gone());
  host.pass(milliseconds{1});
  CHECK(host.processes.sent_to(rank) == std::vector<int>{SIGSTOP, SIGKILL});
  CHECK(host.is_gone());
}

TEST_CASE("a ping renews the lease with what the controller has heard, and nothing else does") {
  FakeHost host;
  host.hello(seconds{20});
  const pid_t rank = host.start();
  const auto stamp = std::chrono::duration_cast<milliseconds>(host.clock.boot()).count();
  host.pass(seconds{15});
  host.client->send(Ping{0, stamp + 10'000});
  host.turn();
  CHECK(host.lease->until() == host.clock.boot() + seconds{15});
  host.pass(seconds{10});
  host.client->send(Ping{0, std::nullopt});  // the journal does not know this agent yet
  host.client->send(a_start("true"));
  host.turn();
  CHECK(host.processes.sent_to(rank).empty());
  host.pass(seconds{6});
  CHECK_FALSE(host.processes.sent_to(rank).empty());
}

TEST_CASE("an agent that stood still beyond its lease ends its ranks before it hears anybody") {
  FakeHost host;
  host.hello(seconds{20});
  const pid_t rank = host.start();
  host.clock.passed += seconds{21};
  const auto now = std::chrono::duration_cast<milliseconds>(host.clock.boot()).count();
  SECTION("on the connection that it had") {
    host.client->send(Ping{0, now});
  }
  SECTION("on another") {
    host.client = std::make_unique<AgentClient>(host.run->socket_path());
    host.client->send(Hello{wire_version, host.run->controller, NodeId{"n1"}, seconds{20}, {}});
  }
  host.turn();
  CHECK(host.processes.sent_to(rank) == std::vector<int>{SIGSTOP, SIGKILL});
  CHECK_FALSE(host.client->await<Welcome>(milliseconds{0}));
}

TEST_CASE("an agent without a controller ends after the first lease") {
  FakeHost host;
  host.pass(seconds{60});
  CHECK_FALSE(host.is_gone());
  host.pass(milliseconds{500});
  CHECK(host.is_gone());
}

TEST_CASE("an agent that nothing happens to looks at its lease by itself") {
  FakeHost host;
  host.clock.passed += seconds{61};
  CHECK(eventually(
      [&] {
        if (!host.is_gone()) host.io->poll();
        return host.is_gone();
      },
      seconds{5}));
}

TEST_CASE("no rank starts where there is no keeper") {
  GreetedHost host;
  host.keeper.error = "could not start the keeper";
  const auto done = host.ask<StartDone>(a_start("true"));
  CHECK(done.error == "could not start the keeper");
  CHECK(host.processes.started.empty());
  host.keeper.error = "";
  host.start();
  CHECK(host.keeper.ensured > 0);
  CHECK(host.keeper.held.size() == 1);  // the rank's pipe
}

TEST_CASE("a keeper is looked after as long as there are ranks or output that only pipes hold") {
  GreetedHost host;
  host.pass(milliseconds{500});
  CHECK(host.keeper.ensured == 0);
  const pid_t rank = host.start();
  const int before = host.keeper.ensured;
  host.pass(milliseconds{500});
  CHECK(host.keeper.ensured == before + 1);
  CHECK_FALSE(host.agent->has_left_nothing());
  host.exits(rank, 0);
  host.ask<AttemptClean>(a_stop());
  CHECK(host.agent->has_left_nothing());
}

TEST_CASE("an agent that stands still is stopped, its ranks are killed, and only then it") {
  FakeProcesses table;
  const ProcessInfo agent = table.add(1).info;
  const pid_t keeper = table.add(agent.pid).info.pid;
  const pid_t rank = table.add(agent.pid).info.pid;
  const pid_t worker = table.add(rank).info.pid;
  table.processes.at(worker).forks_left = 2;
  const pid_t stranger = table.add(1).info.pid;
  CHECK(end_standing_agent(table, agent, {keeper}).empty());
  REQUIRE(table.sent.size() >= 6);
  CHECK(table.sent.front() == FakeProcesses::Sent{agent.pid, SIGSTOP});
  CHECK(table.sent.back() == FakeProcesses::Sent{agent.pid, SIGKILL});
  CHECK_FALSE(table.is_alive_now(rank));
  CHECK_FALSE(table.is_alive_now(worker));
  CHECK(table.sent_to(keeper).empty());
  CHECK(table.sent_to(stranger).empty());
  CHECK(table.processes.size() == 2);  // nobody forked away
}

TEST_CASE("a host that shuts down gives ranks time to save, and takes none that it does not have") {
  GreetedHost host;
  const pid_t rank = host.start();
  host.processes.processes.at(rank).ignores_term = true;
  ::raise(SIGTERM);
  const auto notice = host.expect<NoticeSeen>();
  CHECK(notice.source == "SIGTERM to its agent");
  CHECK(host.processes.sent_to(rank).empty());  // the controller may tell them, it knows the signal
  const auto refused = host.ask<StartDone>(a_start("true", 1, "other"));
  CHECK_THAT(refused.error, ContainsSubstring("is leaving"));
  host.pass(milliseconds{2900});
  CHECK(host.processes.sent_to(rank).empty());
  host.pass(milliseconds{200});
  CHECK(host.processes.sent_to(rank) == std::vector<int>{SIGTERM, SIGCONT});
  host.pass(seconds{24});
  CHECK(host.processes.is_alive_now(rank));
  host.pass(seconds{1});
  CHECK_FALSE(host.processes.is_alive_now(rank));
  CHECK(eventually([&] {  // its last look at the program's metrics is over
    if (!host.is_gone()) host.pass(milliseconds{25});
    return host.is_gone();
  }));
}

TEST_CASE("SIGINT ends an agent and its ranks at once") {
  GreetedHost host;
  const pid_t rank = host.start();
  ::raise(SIGINT);
  REQUIRE(host.turn_until(*host.client, [&] { return host.is_gone(); }));
  CHECK(host.processes.sent_to(rank) == std::vector<int>{SIGSTOP, SIGKILL});
}

TEST_CASE("an agent retires when it holds no attempt, and only then") {
  GreetedHost host;
  const pid_t rank = host.start();
  host.client->send(Retire{});
  host.turn();
  CHECK_FALSE(host.is_gone());
  CHECK(host.processes.is_alive_now(rank));
  host.client->send(ForgetAttempt{JobId{"job"}, AttemptId{}});
  host.turn();
  CHECK_FALSE(host.processes.is_alive_now(rank));
  host.pass(milliseconds{25});
  host.client->send(Retire{});
  CHECK(host.turn_until(*host.client, [&] { return host.is_gone(); }));
}
