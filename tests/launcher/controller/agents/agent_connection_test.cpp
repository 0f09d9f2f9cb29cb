#include "launcher/controller/agents/connection.h"

#include "tests/catch.h"
#include "tests/launcher/controller/fake_transport.h"
#include "tests/launcher/controller/hand_timers.h"

namespace muster {
namespace {

struct Greeted {
  HandTimers timers;
  FakeTransport transport;
  std::vector<LinkFailure> failures;
  std::vector<Welcome> welcomes;
  std::vector<FromAgent> heard;
  AgentConnection connection;

  explicit Greeted(std::optional<Milliseconds> lease = std::nullopt)
      : connection(timers, transport, address(), launch(), lease,
                   {[this](const Welcome& welcome) { welcomes.push_back(welcome); },
                    [this](FromAgent message, std::string) { heard.push_back(std::move(message)); },
                    [this](LinkFailure failure) { failures.push_back(std::move(failure)); }}) {
    connection.watch_notice("/etc/notice");
    connection.connect();
  }
  static NodeAddress address() {
    NodeAddress node;
    node.id = {"n1"};
    node.host = "a";
    node.transport = TransportKind::ssh;
    return node;
  }
  static AgentLaunch launch() {
    AgentLaunch launch;
    launch.controller_id = "c1";
    return launch;
  }
};

TEST_CASE("a node that is silent for more than ten seconds is given up, and no sooner") {
  Greeted node;
  const auto wire = node.transport.answer(0);
  wire->say(Welcome{});
  node.timers.pass(Seconds{10});
  REQUIRE(node.connection.is_up());
  wire->say(Pong{});
  node.timers.pass(Seconds{9});
  CHECK(node.connection.silent_for() == Milliseconds{9'000});
  node.timers.pass(Seconds{1});
  REQUIRE(node.connection.is_up());
  CHECK(node.failures.empty());
  node.timers.pass(Seconds{2});
  REQUIRE(node.failures.size() == 1);
  CHECK(node.failures[0].kind == LinkFailureKind::lost);
  CHECK(node.failures[0].is_silent);
  CHECK_THAT(node.failures[0].message, ContainsSubstring("node n1: no response for 10 s"));
  CHECK(node.connection.is_idle());
  CHECK(wire->is_closed);
  node.timers.pass(Seconds{60});
  CHECK(node.failures.size() == 1);
  CHECK(node.timers.is_idle());
}

TEST_CASE("one that talks but never greets is given up like one that is silent") {
  Greeted node;
  const auto wire = node.transport.answer(0);
  for (int i = 0; i < 5; ++i) {
    node.timers.pass(Seconds{2});
    wire->say(Pong{});
  }
  CHECK(node.failures.empty());
  CHECK_FALSE(node.connection.silent_for());
  node.timers.pass(Seconds{2});
  CHECK(node.failures.size() == 1);
  CHECK(node.heard.empty());
}

TEST_CASE(
    "a node is asked for a sign of life twenty times in a lease, at least every two seconds") {
  const auto pings_in_ten_seconds = [](Milliseconds lease) {
    Greeted node(lease);
    const auto wire = node.transport.answer(0);
    wire->say(Welcome{});
    wire->take<Ping>();
    node.timers.pass(Seconds{10});
    return wire->take<Ping>().size();
  };
  CHECK(pings_in_ten_seconds(Milliseconds{60'000}) == 5);
  CHECK(pings_in_ten_seconds(Milliseconds{20'000}) == 10);
  CHECK(pings_in_ten_seconds(Milliseconds{40'000}) == 5);
}

TEST_CASE("half a lease of silence is too long") {
  Greeted node(Milliseconds{6'000});
  node.transport.answer(0)->say(Welcome{});
  node.timers.pass(Milliseconds{3'000});
  CHECK(node.connection.is_up());
  node.timers.pass(Milliseconds{300});
  REQUIRE(node.failures.size() == 1);
  CHECK_THAT(node.failures[0].message, ContainsSubstring("no response for 3 s"));
  CHECK(node.connection.silent_at_loss() == Milliseconds{3'300});
}

TEST_CASE("a short lease is offered where the round trip is measured and short, nowhere else") {
  const auto offered = [](std::optional<std::chrono::microseconds> round_trip,
                          std::optional<Milliseconds> set) {
    Greeted node(set);
    Connected reached;
    reached.round_trip = round_trip;
    return node.transport.answer(0, std::move(reached))->take<Hello>().at(0);
  };
  using Us = std::chrono::microseconds;
  CHECK(offered(Us{1999}, {}).near_lease == Milliseconds{20'000});
  CHECK(offered(Us{1999}, {}).lease == Milliseconds{60'000});  // for an agent that knows no other
  CHECK_FALSE(offered(Us{2000}, {}).near_lease);
  CHECK_FALSE(offered(std::nullopt, {}).near_lease);
  CHECK_FALSE(offered(Us{100}, Milliseconds{45'000}).near_lease);
  CHECK(offered(Us{100}, Milliseconds{45'000}).lease == Milliseconds{45'000});
}

TEST_CASE("the lease that counts is the one that the agent says it holds") {
  Greeted node;
  Connected reached;
  reached.round_trip = std::chrono::microseconds{100};
  const auto wire = node.transport.answer(0, std::move(reached));
  Welcome welcome;
  SECTION("an older agent does not say: the long one") {
    wire->say(welcome);
    CHECK(node.connection.held_lease() == Milliseconds{60'000});
  }
  SECTION("the short one") {
    welcome.lease = Milliseconds{20'000};
    wire->say(welcome);
    CHECK(node.connection.held_lease() == Milliseconds{20'000});
  }
  SECTION("never less than any that was offered") {
    welcome.lease = Milliseconds{1};
    wire->say(welcome);
    CHECK(node.connection.held_lease() == Milliseconds{20'000});
  }
}

TEST_CASE("a silent host is asked over another connection, and lost when that is refused") {
  Greeted node;
  const auto wire = node.transport.answer(0);
  wire->say(Welcome{});
  node.timers.pass(Seconds{2});
  CHECK(node.transport.asked.size() == 1);
  node.timers.pass(Seconds{2});
  REQUIRE(node.transport.asked.size() == 2);
  CHECK(node.transport.asked[1].launch.connect.retries == 0);
  LinkFailure failure{LinkFailureKind::unreachable, "no route"};
  SECTION("refused: at once") {
    failure.is_denied = true;
    node.transport.asked[1].done(failure);
    REQUIRE(node.failures.size() == 1);
    CHECK(node.failures[0].is_denied);
    CHECK(node.connection.silent_at_loss() == Milliseconds{4'000});
  }
  SECTION("no answer: it may only stand still, and is asked anew, one at a time") {
    node.transport.asked[1].done(failure);
    node.timers.pass(Seconds{4});
    CHECK(node.failures.empty());
    CHECK(node.transport.asked.size() == 3);
  }
  SECTION("let in: its agent may only stand still") {
    node.transport.answer(1);
    node.timers.pass(Seconds{4});
    CHECK(node.failures.empty());
    CHECK(node.connection.is_up());
  }
  SECTION("refused after it has spoken again: nothing") {
    failure.is_denied = true;
    wire->say(Pong{});
    node.transport.asked[1].done(failure);
    CHECK(node.failures.empty());
  }
}

TEST_CASE("how a node was reached is known, and its agent is told who speaks") {
  Greeted node;
  const auto wire = node.transport.answer(
      0, {nullptr, {{"tcp", 700}}, "aes128-ctr", NodeId{"n7"}, "first contact with n1"});
  REQUIRE(node.connection.reached().profile.size() == 1);
  CHECK(node.connection.reached().profile[0].phase == "tcp");
  CHECK(node.connection.reached().methods == "aes128-ctr");
  CHECK(node.connection.reached().through == NodeId{"n7"});
  CHECK(node.connection.reached().first_contact == "first contact with n1");
  CHECK_FALSE(node.connection.is_up());
  CHECK_FALSE(node.connection.is_idle());
  const auto hello = wire->take<Hello>();
  REQUIRE(hello.size() == 1);
  CHECK(hello[0].controller_id == "c1");
  CHECK(hello[0].node == NodeId{"n1"});
  CHECK(hello[0].lease == Milliseconds{60'000});
  CHECK(hello[0].notice_file == "/etc/notice");
  CHECK(hello[0].sent_us == node.timers.raw_now().count());
}

TEST_CASE("a later connection has nothing of an earlier one: no half message, no lease") {
  Greeted node;
  const auto first = node.transport.answer(0);
  first->say(Welcome{});
  node.connection.renew_lease();
  const std::string half = encode(FromAgent{Pong{}}).substr(0, 10);
  first->handlers.on_bytes(std::as_bytes(std::span(half)));
  first->handlers.on_closed({LinkFailureKind::lost, "gone"});
  REQUIRE(node.failures.size() == 1);
  node.connection.connect();
  const auto second = node.transport.answer(1);
  second->say(Welcome{});
  CHECK(node.welcomes.size() == 2);
  CHECK(node.connection.is_up());
  node.timers.pass(Seconds{2});
  const auto pings = second->take<Ping>();
  REQUIRE(pings.size() == 2);
  for (const Ping& ping : pings) CHECK_FALSE(ping.heard_ms);
  node.connection.renew_lease();
  CHECK(second->take<Ping>().at(0).heard_ms);
}

TEST_CASE("a node that is not reached, or speaks another protocol, is told once with the reason") {
  Greeted node;
  SECTION("not reached") {
    node.transport.asked[0].done(LinkFailure{LinkFailureKind::unreachable, "no route"});
    REQUIRE(node.failures.size() == 1);
    CHECK(node.failures[0].message == "no route");
  }
  SECTION("another protocol") {
    Welcome other;
    other.version = wire_version + 1;
    node.transport.answer(0)->say(other);
    REQUIRE(node.failures.size() == 1);
    CHECK(node.failures[0].kind == LinkFailureKind::wrong_build);
    CHECK(node.welcomes.empty());
  }
  SECTION("no protocol") {
    const std::string bytes(64, '\xff');
    node.transport.answer(0)->handlers.on_bytes(std::as_bytes(std::span(bytes)));
    REQUIRE(node.failures.size() == 1);
    CHECK(node.failures[0].kind == LinkFailureKind::wrong_build);
  }
  CHECK(node.connection.is_idle());
}

}  // namespace
}  // namespace muster
