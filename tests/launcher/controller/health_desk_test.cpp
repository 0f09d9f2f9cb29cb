// Nodes are asked for their health on behalf of a client; whatever happens to one, it has an
// answer.
#include "launcher/controller/health_desk.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <csignal>
#include <set>

#include "launcher/controller/asio_timers.h"
#include "tests/catch.h"
#include "tests/launcher/controller/agents.h"

using namespace muster;

namespace {

using Socket = boost::asio::local::stream_protocol::socket;

struct Answer {
  NodeLooked looked;
  std::string payload;
};

// The desk between a client and a transport that the test plays.
struct Desk {
  boost::asio::io_context io;
  FakeTransport transport;
  State state;
  AsioTimers timers{io};
  AgentPool pool{timers,
                 transport,
                 AgentLaunch{},
                 {[this](const NodeId& node, const Welcome&) { desk.node_up(node); },
                  [this](const NodeId& node, const FromAgent& message, const std::string& payload) {
                    if (const auto* some = std::get_if<ExecOutput>(&message))
                      CHECK(desk.output(node, *some, payload));
                    if (const auto* end = std::get_if<ExecEnded>(&message))
                      CHECK(desk.ended(node, *end));
                  },
                  [this](const NodeId& node, const LinkFailure& failure, std::optional<Interval>) {
                    desk.node_down(node, failure.message);
                  },
                  [this](const NodeId& node, const LinkFailure& failure) {
                    desk.node_down(node, failure.message);
                  }}};
  HealthDesk desk{timers, state, pool,
                  [this](const ComputeTarget& target, const NodeAddress& node) {
                    pool.await(node, target, "");
                  }};
  Socket client{io};
  std::shared_ptr<Session> session;
  FrameReader reader;
  bool is_over = false;

  Desk() {
    Socket server(io);
    boost::asio::local::connect_pair(client, server);
    client.non_blocking(true);
    session = std::make_shared<Session>(
        std::move(server), [](const std::shared_ptr<Session>&, ToController, std::string) {},
        [this](const std::shared_ptr<Session>& gone) { desk.client_gone(gone); });
    session->start();
  }

  void ask(const std::vector<std::string>& nodes, Milliseconds timeout = Milliseconds{60'000}) {
    LookAtNodes request;
    request.timeout = timeout;
    NodesMeant meant;
    meant.profile = "profile: site\n";
    for (const std::string& node : nodes) meant.target.nodes.push_back(address_of(node, node));
    request.nodes.push_back(meant);
    desk.look(session, request);
  }
  std::shared_ptr<FakeWire> reach(std::size_t number) {
    auto wire = transport.answer(number);
    wire->say(Welcome{});
    return wire;
  }
  // What the client has got by now.
  std::vector<Answer> answers() {
    io.poll();
    std::vector<Answer> all;
    std::array<std::byte, 65536> buffer;
    boost::system::error_code error;
    while (const std::size_t count = client.read_some(boost::asio::buffer(buffer), error)) {
      reader.feed(std::span(buffer).first(count));
      io.poll();
    }
    is_over = error == boost::asio::error::eof;
    for (auto frame = reader.next(); frame && *frame; frame = reader.next()) {
      auto received = decode_from_controller(std::move(**frame));
      REQUIRE(received);
      all.push_back({std::get<NodeLooked>(received->message), received->payload});
    }
    return all;
  }
  LookAtHealth asked_of(FakeWire& wire) {
    const auto asked = wire.take<LookAtHealth>();
    REQUIRE(asked.size() == 1);
    return asked.front();
  }
  void hold(const std::string& node) { state.nodes[NodeId{node}].owner = JobId{"job"}; }
};

ExecEnded ended_with(const std::string& id, int code, int signal = 0) {
  return {id, ExitStatus{code, signal}, {}};
}

}  // namespace

TEST_CASE("a node that is not connected is reached, asked, and its words are handed on") {
  Desk desk;
  desk.ask({"h1", "h2"});
  REQUIRE(desk.transport.asked.size() == 2);
  const auto wire = desk.reach(0);
  const LookAtHealth asked = desk.asked_of(*wire);
  CHECK(asked.profile == "profile: site\n");
  CHECK_FALSE(asked.is_held);
  wire->say(ExecOutput{asked.id, false}, "{\"a\":");
  wire->say(ExecOutput{asked.id, true}, "a notice");
  wire->say(ExecOutput{asked.id, false}, "1}");
  wire->say(ended_with(asked.id, 3));
  const auto first = desk.answers();
  REQUIRE(first.size() == 1);
  CHECK(first[0].looked.node == NodeId{"h1"});
  CHECK(first[0].looked.error.empty());
  CHECK(first[0].payload == "{\"a\":1}");
  CHECK_FALSE(desk.is_over);
  desk.transport.asked[1].done(LinkFailure{LinkFailureKind::unreachable, "no route to h2"});
  const auto second = desk.answers();
  REQUIRE(second.size() == 1);
  CHECK(second[0].looked.error == "no route to h2");
  CHECK(desk.is_over);
}

TEST_CASE(
    "a failure that is no news is an answer as well, and no pause keeps a node from its try") {
  Desk desk;
  desk.ask({"h1", "h2"});
  desk.transport.asked[0].done(LinkFailure{LinkFailureKind::unreachable, "no route"});
  CHECK(desk.answers().size() == 1);
  desk.ask({"h1"});
  REQUIRE(desk.transport.asked.size() == 3);
  desk.transport.asked[2].done(LinkFailure{LinkFailureKind::unreachable, "no route"});
  CHECK(desk.answers().size() == 1);
}

TEST_CASE("a program that ends otherwise, a lost link and silence are told with the reason") {
  Desk desk;
  desk.ask({"h1", "h2", "h3"}, Milliseconds{30});
  const auto one = desk.reach(0);
  const auto two = desk.reach(1);
  const std::string id = desk.asked_of(*one).id;
  one->say(ExecOutput{id, true}, "muster: the profile is wrong\n");
  one->say(ended_with(id, 90));
  two->handlers.on_closed({LinkFailureKind::lost, "the link broke"});
  std::map<std::string, std::string> errors;
  for (int turn = 0; turn < 2000 && errors.size() < 3; ++turn) {
    desk.io.run_for(std::chrono::milliseconds(5));
    for (const Answer& answer : desk.answers()) {
      errors[answer.looked.node.value] = answer.looked.error;
      CHECK(answer.payload.empty());
    }
  }
  CHECK(errors["h1"] == "the checks ended with 90: muster: the profile is wrong");
  CHECK(errors["h2"] == "the link broke");
  CHECK(errors["h3"] == "no answer within 1 s: it is being connected");
  CHECK(desk.is_over);
}

TEST_CASE("a node that a job holds is not connected for this, and is said to be held") {
  Desk desk;
  desk.hold("h1");
  desk.ask({"h1"});
  CHECK(desk.transport.asked.empty());
  desk.pool.want(address_of("h1", "h1"), target_with(Milliseconds{60'000}), "");
  const auto wire = desk.reach(0);
  CHECK(desk.asked_of(*wire).is_held);
}

TEST_CASE("checks that a beginning job ended are done again beside it") {
  Desk desk;
  desk.ask({"h1"});
  const auto wire = desk.reach(0);
  const LookAtHealth first = desk.asked_of(*wire);
  desk.hold("h1");
  wire->say(ExecOutput{first.id, false}, "half of an ans");
  wire->say(ended_with(first.id, 0, SIGKILL));
  const LookAtHealth second = desk.asked_of(*wire);
  CHECK(second.is_held);
  wire->say(ExecOutput{second.id, false}, "{}");
  wire->say(ended_with(second.id, 0));
  const auto answers = desk.answers();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].payload == "{}");
}

TEST_CASE("checks that were killed on a free node are no answer, and are not begun again") {
  Desk desk;
  desk.ask({"h1"});
  const auto wire = desk.reach(0);
  wire->say(ended_with(desk.asked_of(*wire).id, 0, SIGKILL));
  const auto answers = desk.answers();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].looked.error == "the checks were killed by signal 9");
  CHECK(wire->take<LookAtHealth>().empty());
}

TEST_CASE("a client that goes away ends what it asked for") {
  Desk desk;
  desk.ask({"h1"});
  const auto wire = desk.reach(0);
  const std::string id = desk.asked_of(*wire).id;
  desk.client.close();
  desk.io.poll();
  const auto stopped = wire->take<ExecStop>();
  REQUIRE(stopped.size() == 1);
  CHECK(stopped[0].id == id);
  CHECK_FALSE(desk.desk.output(NodeId{"h1"}, ExecOutput{id, false}, "late"));
}

TEST_CASE("an answer without end is cut off and said to be none") {
  Desk desk;
  desk.ask({"h1"});
  const auto wire = desk.reach(0);
  const std::string id = desk.asked_of(*wire).id;
  const std::string megabyte(1u << 20, 'x');
  for (int i = 0; i < 5 && desk.desk.output(NodeId{"h1"}, {id, false}, megabyte); ++i) {
  }
  const auto answers = desk.answers();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].looked.error == "its answer is longer than 4 MiB");
  CHECK(wire->take<ExecStop>().size() == 1);
}
