// What agents tell of faults, and what they are told back: only what the journal holds.
#include <thread>

#include "launcher/controller/clients/requests.h"
#include "tests/launcher/controller/agents.h"
#include "tests/launcher/controller/paired_client.h"

namespace muster {
namespace {

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
struct ClientDesk {
  struct Waiting {
    Observation what;
    Requests::Answer answer;
  };

  explicit ClientDesk(Agents& of) : agents(of) {}

  void ask(ToController request) { requests.handle(client.session, std::move(request), {}); }
  // The turn writes what was observed, or cannot.
  void write(const Status& outcome) {
    for (const Waiting& one : std::exchange(waiting, {})) {
      if (outcome) agents.know(one.what);
      one.answer(outcome);
    }
  }

  Agents& agents;
  PairedClient client{agents.io};
  JobRows rows;
  Relay relay{agents.state, agents.pool};
  NodeHealthService health{agents.timers, agents.state, agents.pool,
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

TEST_CASE("of a fault so much is kept as helps anybody, and of so many as a node can have") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  const Time now = agents.timers.wall_now();
  const std::string much(1000, 'x');
  NodeFault fault = a_fault("gpu.xid", now);
  fault.device = fault.serial = fault.code = fault.what = much;
  fault.evidence = {much, "b", "c", "d", "e"};
  std::vector<NodeFault> faults(70, fault);
  for (std::size_t i = 0; i < faults.size(); ++i) faults[i].id = std::to_string(i) + much;
  wire->say(told(faults, now));
  REQUIRE(agents.observed.size() == 1);
  const auto& seen = std::get<NodeFaultsSeen>(agents.observed.front());
  REQUIRE(seen.faults.size() == 64);
  const NodeFault& kept = seen.faults.front();
  CHECK(kept.check == "gpu.xid");
  for (const std::string& text : {kept.id, kept.device, kept.serial, kept.code, kept.what}) {
    CHECK(text.size() == 400);
  }
  const std::vector<std::string> evidence{std::string(400, 'x'), "b", "c"};
  CHECK(kept.evidence == evidence);
}

TEST_CASE("what a person calls sound is mended up to that moment, and no fault of after it") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  const Time now = agents.timers.wall_now();
  const Time sound = now - Seconds{5};
  agents.know(Observation{
      NodeFaultsSeen{{"n1"},
                     {a_fault("before", sound - Milliseconds{1}), a_fault("just", sound),
                      a_fault("after", sound + Milliseconds{1})},
                     true}});
  SECTION("nobody has said so") {}
  SECTION("somebody has") {
    agents.state.nodes.at({"n1"}).cleared_at = sound;
  }
  // Their times are those that are known, to within what clocks are off.
  wire->say(told({a_fault("before", sound), a_fault("just", sound), a_fault("after", sound)}, now));
  const auto mended = wire->take<FaultsFixed>();
  std::vector<std::string> ids;
  if (!mended.empty()) ids = mended.front().ids;
  const bool has_said = agents.state.nodes.at({"n1"}).cleared_at.has_value();
  const std::vector<std::string> up_to_it{"id of before", "id of just"};
  CHECK(ids == (has_said ? up_to_it : std::vector<std::string>{}));
}

TEST_CASE("an agent is told what was mended when the undrain is in the journal, and not before") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  const Time now = agents.timers.wall_now();
  agents.know(Observation{NodeFaultsSeen{{"n1"}, {a_fault("gpu.xid", from_ms(1))}, true}});
  ClientDesk desk(agents);
  desk.ask(SetDrain{{"n1"}, false, "", {}});
  CHECK(wire->take<FaultsFixed>().empty());
  SECTION("the store is full: the agent keeps them, and so does State") {
    desk.write(Error{"no space left on device"});
    CHECK(wire->take<FaultsFixed>().empty());
    CHECK_FALSE(agents.state.nodes.at({"n1"}).cleared_at);
  }
  SECTION("it is written") {
    desk.write(Done{});
    const auto mended = wire->take<FaultsFixed>();
    REQUIRE(mended.size() == 1);
    CHECK(mended.front().ids == std::vector<std::string>{"id of gpu.xid"});
  }
  SECTION("the controller died right after that: the agent tells of them again") {
    desk.waiting.clear();
    agents.know(Observation{NodeDrainSet{{"n1"}, false, "", {}}});
    agents.state.nodes.at({"n1"}).cleared_at = now;
    wire->say(told({a_fault("gpu.xid", now - Seconds{9})}, now));
    CHECK(wire->take<FaultsFixed>().size() == 1);
  }
}

TEST_CASE("the agent of an undrained node is told so where no faults are known, of a check not") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  agents.know(Decision{BreakerOpened{"ib.phys", "why", true}});
  ClientDesk desk(agents);
  desk.ask(SetDrain{{"n1"}, false, "", {}});
  CHECK(wire->take<FaultsFixed>().empty());
  desk.write(Done{});
  const auto mended = wire->take<FaultsFixed>();
  REQUIRE(mended.size() == 1);
  CHECK(mended.front().ids.empty());
  desk.ask(ResetBreaker{"ib.phys"});
  desk.write(Done{});
  CHECK(wire->take<FaultsFixed>().empty());
}

TEST_CASE("so is one when a check is armed again: what it found before counts no more") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  const Time now = agents.timers.wall_now();
  agents.know(Observation{NodeFaultsSeen{
      {"n1"}, {a_fault("ib.phys", from_ms(1)), a_fault("gpu.xid", from_ms(1))}, true}});
  agents.know(Decision{BreakerOpened{"ib.phys", "why", true}});
  ClientDesk desk(agents);
  desk.ask(ResetBreaker{"ib.phys"});
  CHECK(wire->take<FaultsFixed>().empty());
  SECTION("the store is full") {
    desk.write(Error{"no space left on device"});
    CHECK(wire->take<FaultsFixed>().empty());
    CHECK(agents.state.breakers.at("ib.phys").open_since);
  }
  SECTION("it is written") {
    desk.write(Done{});
    const auto mended = wire->take<FaultsFixed>();
    REQUIRE(mended.size() == 1);
    CHECK(mended.front().ids == std::vector<std::string>{"id of ib.phys"});
  }
  SECTION("an agent that was away then") {
    desk.waiting.clear();
    agents.know(Observation{BreakerReset{"ib.phys"}});
    agents.state.breakers.at("ib.phys").reset_at = now;
    wire->say(told({a_fault("ib.phys", now - Seconds{9}), a_fault("gpu.xid", now)}, now));
    const auto mended = wire->take<FaultsFixed>();
    REQUIRE(mended.size() == 1);
    CHECK(mended.front().ids == std::vector<std::string>{"id of ib.phys"});
  }
}

TEST_CASE("a check is armed again for each target that it drains no node of, and there alone") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  JobSubmitted job = a_job("j", "a");
  job.target.name = "lab";
  agents.know(Observation{job});
  agents.know(Observation{NodeFaultsSeen{{"n1"}, {a_fault("ib.phys", from_ms(1))}, true}});
  for (const char* name : {"ib.phys@farm", "ib.phys@lab"}) {
    agents.know(Decision{BreakerOpened{name, "why", true}});
  }
  agents.know(Decision{BreakerOpened{"lab", "why"}});
  ClientDesk desk(agents);
  const auto is_open = [&](const char* name) {
    return agents.state.breakers.at(name).open_since.has_value();
  };
  SECTION("one of them") {
    desk.ask(ResetBreaker{"ib.phys@farm"});
    REQUIRE(desk.waiting.size() == 1);
    desk.write(Done{});
    CHECK(wire->take<FaultsFixed>().empty());
    CHECK_FALSE(is_open("ib.phys@farm"));
    CHECK(is_open("ib.phys@lab"));
  }
  SECTION("all of them") {
    desk.ask(ResetBreaker{"ib.phys"});
    REQUIRE(desk.waiting.size() == 2);
    desk.write(Done{});
    const auto mended = wire->take<FaultsFixed>();
    REQUIRE(mended.size() == 1);
    CHECK(mended.front().ids == std::vector<std::string>{"id of ib.phys"});
    CHECK_FALSE(is_open("ib.phys@farm"));
    CHECK_FALSE(is_open("ib.phys@lab"));
    CHECK_FALSE(agents.state.breakers.contains("ib.phys"));
  }
  SECTION("none that is not open") {
    desk.ask(ResetBreaker{"ib.phys@other"});
    desk.ask(ResetBreaker{"gpu.xid"});
    CHECK(desk.waiting.empty());
  }
  CHECK(is_open("lab"));
}

TEST_CASE("an agent that no job's target had when a check was armed again is told before a gate") {
  Agents agents;
  const auto wire = agents.connect(address_of("n1", "a"));
  LinkUp up;
  up.node = {"n1"};
  agents.know(Observation{up});
  agents.know(Observation{NodeFaultsSeen{
      {"n1"}, {a_fault("ib.phys", from_ms(1)), a_fault("gpu.xid", from_ms(1))}, true}});
  agents.know(Decision{BreakerOpened{"ib.phys@lab", "why", true}});
  ClientDesk desk(agents);
  desk.ask(ResetBreaker{"ib.phys"});
  desk.write(Done{});
  CHECK(wire->take<FaultsFixed>().empty());
  JobSubmitted job = a_job("j", "a");
  job.target.lease = Milliseconds{60000};
  const bool is_lab = GENERATE(true, false);
  job.target.name = is_lab ? "lab" : "farm";
  agents.know(Observation{job});
  agents.know(Decision{AttemptPlaced{{"j"}, {0}, {{"n1"}}, ""}});
  agents.perform();
  const auto mended = wire->take<FaultsFixed>();
  REQUIRE(mended.size() == (is_lab ? 1U : 0U));
  if (is_lab) CHECK(mended.front().ids == std::vector<std::string>{"id of ib.phys"});
}

TEST_CASE("a check that is armed again leaves a target alone that is called like it") {
  Agents agents;
  agents.know(Decision{BreakerOpened{"ib.phys@lab", "why", true}});
  agents.know(Decision{BreakerOpened{"lab", "why"}});
  agents.know(Decision{BreakerOpened{"lab@night", "why"}});
  ClientDesk desk(agents);
  desk.ask(ResetBreaker{"lab"});
  REQUIRE(desk.waiting.size() == 1);
  desk.write(Done{});
  CHECK_FALSE(agents.state.breakers.at("lab").open_since);
  CHECK(agents.state.breakers.at("lab@night").open_since);
  CHECK(agents.state.breakers.at("ib.phys@lab").open_since);
}

}  // namespace muster
