// What agents tell of faults, and what they are told back: only what the journal holds.
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <thread>

#include "launcher/controller/requests.h"
#include "tests/launcher/controller/agents.h"

namespace muster {
namespace {

using boost::asio::local::stream_protocol;

NodeFault a_fault(const std::string& check, Time since) {
  NodeFault fault;
  fault.id = "id of " + check;
  fault.check = check;
  fault.since = since;
  return fault;
}

FaultsTold told(std::vector<NodeFault> faults, Time now) {
  FaultsTold message;
  message.faults = std::move(faults);
  message.now_ms = to_ms(now);
  return message;
}

// The requests of one client, whose observations wait for the test to journal them.
struct Desk {
  struct Waiting {
    Observation what;
    Requests::Answer answer;
  };

  explicit Desk(Agents& of) : agents(of) {}

  void ask(ToController request) { requests.handle(session, std::move(request), {}); }
  // The turn writes what was observed, or cannot.
  void write(const Status& outcome) {
    for (const Waiting& one : std::exchange(waiting, {})) {
      if (outcome) agents.know(one.what);
      one.answer(outcome);
    }
  }

  Agents& agents;
  stream_protocol::socket client{agents.io};
  std::shared_ptr<Session> session = [this] {
    stream_protocol::socket server(agents.io);
    boost::asio::local::connect_pair(client, server);
    return std::make_shared<Session>(
        std::move(server), [](const std::shared_ptr<Session>&, ToController, std::string) {},
        [](const std::shared_ptr<Session>&) {});
  }();
  JobRows rows;
  Relay relay{agents.pool};
  HealthDesk health{agents.timers, agents.state, agents.pool,
                    [](const ComputeTarget&, const NodeAddress&) {}};
  Watchers watchers;
  std::vector<Waiting> waiting;
  Requests requests{{agents.state, *agents.store, rows, agents.pool, relay, health, watchers,
                     "build",
                     [this](Observation what, Requests::Answer answer) {
                       waiting.push_back({std::move(what), std::move(answer)});
                     },
                     [] {}, [this] { return agents.timers.wall_now(); }}};
};

}  // namespace

TEST_CASE("faults are journaled with whose the node was, once however often they are told") {
  Agents agents;
  agents.know(Observation{a_job("j", "a")});
  agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
  const auto wire = agents.connect(address_of("n1", "a"));
  const Time now = agents.timers.wall_now();
  for (int i = 0; i < 2; ++i) {
    wire->say(told({a_fault("gpu.xid", now)}, now));
    std::this_thread::sleep_for(Milliseconds{2});  // its age is told in whole milliseconds
  }
  REQUIRE(agents.observed.size() == 1);
  const auto& seen = std::get<NodeFaultsSeen>(agents.observed.front());
  CHECK(seen.owner == JobId{"j"});
  REQUIRE(seen.faults.size() == 1);
  CHECK(seen.faults.front().check == "gpu.xid");
}

TEST_CASE("an agent is told what was mended when the undrain is in the journal, and not before") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  const Time now = agents.timers.wall_now();
  agents.know(Observation{NodeFaultsSeen{{"n1"}, {a_fault("gpu.xid", from_ms(1))}, true}});
  Desk desk(agents);
  desk.ask(SetDrain{{"n1"}, false, "", {}});
  CHECK(wire->take<FaultsMended>().empty());
  SECTION("the store is full: the agent keeps them, and so does State") {
    desk.write(Error{"no space left on device"});
    CHECK(wire->take<FaultsMended>().empty());
    CHECK_FALSE(agents.state.nodes.at({"n1"}).sound_since);
  }
  SECTION("it is written") {
    desk.write(Done{});
    const auto mended = wire->take<FaultsMended>();
    REQUIRE(mended.size() == 1);
    CHECK(mended.front().ids == std::vector<std::string>{"id of gpu.xid"});
  }
  SECTION("the controller died right after that: the agent tells of them again") {
    desk.waiting.clear();
    agents.know(Observation{NodeDrainSet{{"n1"}, false, "", {}}});
    agents.state.nodes.at({"n1"}).sound_since = now;
    wire->say(told({a_fault("gpu.xid", now - Seconds{9})}, now));
    CHECK(wire->take<FaultsMended>().size() == 1);
  }
}

TEST_CASE("the agent of an undrained node is told so where no faults are known, of a check not") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  agents.know(Decision{BreakerOpened{"ib.phys", "why", true}});
  Desk desk(agents);
  desk.ask(SetDrain{{"n1"}, false, "", {}});
  CHECK(wire->take<FaultsMended>().empty());
  desk.write(Done{});
  const auto mended = wire->take<FaultsMended>();
  REQUIRE(mended.size() == 1);
  CHECK(mended.front().ids.empty());
  desk.ask(ResetBreaker{"ib.phys"});
  desk.write(Done{});
  CHECK(wire->take<FaultsMended>().empty());
}

TEST_CASE("so is one when a check is armed again: what it found before counts no more") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  const Time now = agents.timers.wall_now();
  agents.know(Observation{NodeFaultsSeen{
      {"n1"}, {a_fault("ib.phys", from_ms(1)), a_fault("gpu.xid", from_ms(1))}, true}});
  agents.know(Decision{BreakerOpened{"ib.phys", "why", true}});
  Desk desk(agents);
  desk.ask(ResetBreaker{"ib.phys"});
  CHECK(wire->take<FaultsMended>().empty());
  SECTION("the store is full") {
    desk.write(Error{"no space left on device"});
    CHECK(wire->take<FaultsMended>().empty());
    CHECK(agents.state.breakers.at("ib.phys").open_since);
  }
  SECTION("it is written") {
    desk.write(Done{});
    const auto mended = wire->take<FaultsMended>();
    REQUIRE(mended.size() == 1);
    CHECK(mended.front().ids == std::vector<std::string>{"id of ib.phys"});
  }
  SECTION("an agent that was away then") {
    desk.waiting.clear();
    agents.know(Observation{BreakerReset{"ib.phys"}});
    agents.state.breakers.at("ib.phys").reset_at = now;
    wire->say(told({a_fault("ib.phys", now - Seconds{9}), a_fault("gpu.xid", now)}, now));
    const auto mended = wire->take<FaultsMended>();
    REQUIRE(mended.size() == 1);
    CHECK(mended.front().ids == std::vector<std::string>{"id of ib.phys"});
  }
}

}  // namespace muster
