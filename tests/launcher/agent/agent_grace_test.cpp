// The time that ranks are given to save: longer while they do, and no longer; and what a host that
// is taken away leaves of it.
#include <chrono>
#include <csignal>

#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;
using std::chrono::milliseconds;

namespace {

// Runs `on_term` when it is told to stop. A data worker is there from the beginning: saving fails
// without it.
StartRanks a_saver(const std::string& on_term) {
  return a_program("mkdir -p $MUSTER_CHECKPOINT_DIR; cd $MUSTER_CHECKPOINT_DIR; "
                   "sleep 1000 & w=$!; trap '" + on_term + "' TERM; "
                   "echo ready; while :; do wait; done");
}

AgentClient started(TestNode& node, const StartRanks& ranks) {
  AgentClient client = node.begin();
  client.ask<StartDone>(ranks);
  REQUIRE(client.wait([&] { return client.output(0) == "ready\n"; }));
  return client;
}

StopAttempt a_patient_stop(milliseconds grace, milliseconds grace_max) {
  StopAttempt stop = a_stop(grace);
  stop.grace_max = grace_max;
  return stop;
}

}  // namespace

TEST_CASE("ranks that go on saving have longer than their grace, and so have their workers") {
  TestNode node;
  AgentClient client = started(
      node, a_saver("i=0; while [ $i -lt 12 ]; do i=$((i+1)); echo $i >>part; sleep 0.25; done; "
                    "kill -0 $w && echo saved; exit 3"));
  client.ask<AttemptClean>(a_patient_stop(milliseconds{1000}, milliseconds{60000}));
  CHECK(client.output(0) == "ready\nsaved\n");
  CHECK(client.ended()[0].status.code == 3);
}

TEST_CASE("a rank whose checkpoint no longer grows is killed five seconds later") {
  TestNode node;
  AgentClient client =
      started(node, a_saver("for i in 1 2 3 4; do echo $i >>part; sleep 0.25; done; echo stuck; "
                            "while :; do sleep 1000; done"));
  client.send(a_patient_stop(milliseconds{1000}, milliseconds{60000}));
  REQUIRE(client.wait([&] { return client.output(0) == "ready\nstuck\n"; }));
  const auto stuck = std::chrono::steady_clock::now();
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  const auto lived = std::chrono::steady_clock::now() - stuck;
  CHECK(lived > milliseconds{4500});
  CHECK(lived < milliseconds{20000});  // with the 5 s between SIGTERM to all and SIGKILL
  CHECK(client.ended()[0].status.signal == 9);
}

TEST_CASE("saving without an end is ended at the most that a grace may take") {
  TestNode node;
  AgentClient client = started(node, a_saver("while :; do echo more >>part; sleep 0.2; done"));
  const auto begin = std::chrono::steady_clock::now();
  client.ask<AttemptClean>(a_patient_stop(milliseconds{500}, milliseconds{2000}));
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(took > milliseconds{2000});
  CHECK(took < milliseconds{20000});
}

TEST_CASE("a shorter grace that is asked for later ends the saving") {
  TestNode node;
  AgentClient client =
      started(node, a_saver("echo saving; while :; do echo more >>part; sleep 0.2; done"));
  client.send(a_patient_stop(milliseconds{600000}, milliseconds{600000}));
  REQUIRE(client.wait([&] { return client.output(0) == "ready\nsaving\n"; }));
  client.ask<AttemptClean>(a_patient_stop(milliseconds{0}, milliseconds{0}));
}

TEST_CASE("an agent that is told to end says so and lets its ranks save first") {
  TestNode node;
  AgentClient client = started(node, a_saver("sleep 0.5; echo saved; exit 3"));
  const pid_t agent = node.agent_pid();
  ::kill(agent, SIGTERM);
  const auto seen = client.expect<NoticeSeen>();
  CHECK(seen.source == "SIGTERM to its agent");
  CHECK(seen.leaves_in);
  SECTION("as its controller says") {
    client.send(a_patient_stop(milliseconds{20000}, {}));
  }
  SECTION("or by itself, when that is silent") {}
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  CHECK(client.output(0) == "ready\nsaved\n");
  CHECK(client.ended()[0].status.code == 3);
  client.send(ForgetAttempt{JobId{"job"}, AttemptId{}});
  CHECK(eventually([&] { return !is_running(agent); }));
}

TEST_CASE("an agent without a controller that is told to end ends its ranks and leaves") {
  TestNode node;
  const std::string saved = node.home() + "/saved";
  started(node, a_saver("sleep 0.5; echo done >" + saved + "; exit 3"));
  const pid_t agent = node.agent_pid();
  ::kill(agent, SIGTERM);
  CHECK(eventually([&] { return !is_running(agent); }));
  CHECK(read_file(saved) == "done\n");
}

TEST_CASE("an agent that runs nothing ends at once, and so does one that is told twice") {
  const bool runs = GENERATE(false, true);
  TestNode node;
  AgentClient client = runs ? started(node, a_saver("sleep 1000")) : node.begin();
  const pid_t agent = node.agent_pid();
  ::kill(agent, SIGTERM);
  if (runs) {
    REQUIRE(client.await<NoticeSeen>());
    ::kill(agent, SIGTERM);
  }
  CHECK(eventually([&] { return !is_running(agent); }, milliseconds{4000}));
}
