// Nodes are requested their health on behalf of a client; whatever happens to one, it has an
// answer.
#include "launcher/controller/clients/health.h"

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <set>

#include "launcher/os/timers.h"
#include "tests/catch.h"
#include "tests/launcher/controller/agents.h"
#include "tests/launcher/controller/paired_client.h"

using namespace muster;

namespace {

struct Answer {
  NodeLooked looked;
  std::string payload;
};

// The desk between a client and a transport that the test plays.
struct ServedNodes {
  boost::asio::io_context io;
  FakeTransport transport;
  State state;
  AsioTimers timers{io};
  AgentPool pool{timers, transport, AgentLaunch{}};
  NodeHealthService desk{timers, state, pool,
                         [this](const ComputeTarget& target, const NodeAddress& node) {
                           pool.await(node, target, "");
                         }};
  PairedClient client{io, [this](const std::shared_ptr<Session>& gone) { desk.client_gone(gone); }};
  struct NothingElse : NodeListener {
    bool take(const NodeId&, const FromAgent& message, std::string_view) override {
      CHECK_FALSE(std::holds_alternative<ExecOutput>(message));
      CHECK_FALSE(std::holds_alternative<ExecEnded>(message));
      return false;
    }
  } nothing_else;

  ServedNodes() { pool.set_listeners({&desk, &nothing_else}); }

  void ask(const std::vector<std::string>& nodes, Milliseconds timeout = Milliseconds{60'000}) {
    LookAtNodes request;
    request.timeout = timeout;
    NodesMeant meant;
    meant.profile = "profile: site\n";
    for (const std::string& node : nodes) meant.target.nodes.push_back(address_of(node, node));
    request.nodes.push_back(meant);
    desk.look(client.session, request);
  }
  static MeasureNodes measurement(const std::vector<std::string>& nodes) {
    MeasureNodes request;
    NodesMeant meant;
    meant.profile = "profile: site\n";
    for (const std::string& node : nodes) meant.target.nodes.push_back(address_of(node, node));
    request.nodes.push_back(meant);
    return request;
  }
  static MeasureNodes probes(const std::vector<std::string>& nodes) {
    MeasureNodes request = measurement(nodes);
    request.token = "secret-of-a-run";
    for (const std::string& node : nodes) {
      request.probes.push_back({NodeId{node}, {"tcp-serve", node}, Milliseconds{60'000}});
    }
    return request;
  }
  std::shared_ptr<FakeWire> reach(std::size_t number, bool measures = true) {
    auto wire = transport.answer(number);
    Welcome welcome;
    welcome.measures = measures;
    wire->say(welcome);
    return wire;
  }
  // What the client has got by now.
  std::vector<Answer> answers() {
    std::vector<Answer> all;
    for (auto& one : client.messages()) {
      all.push_back({std::get<NodeLooked>(one.message), std::move(one.payload)});
    }
    return all;
  }
  // The only one.
  Answer answer() {
    const auto all = answers();
    REQUIRE(all.size() == 1);
    return all.front();
  }
  void measure(const MeasureNodes& request) { desk.measure(client.session, request); }
  template <class Message = LookAtHealth>
  Message asked_of(FakeWire& wire) {
    const auto asked = wire.take<Message>();
    REQUIRE(asked.size() == 1);
    return asked.front();
  }
  // Until it has so many, or two seconds are over.
  std::vector<Answer> await_answers(std::size_t count) {
    std::vector<Answer> all;
    for (int turn = 0; turn < 400 && all.size() < count; ++turn) {
      io.run_for(std::chrono::milliseconds(5));
      for (Answer& answer : answers()) all.push_back(std::move(answer));
    }
    return all;
  }
  void hold(const std::string& node) { state.nodes[NodeId{node}].owner = JobId{"job"}; }
};

ExecEnded ended_with(const std::string& id, int code, int signal = 0) {
  return {id, ExitStatus{code, signal}, {}};
}

}  // namespace

TEST_CASE("a node that is not connected is reached, asked, and its words are handed on") {
  ServedNodes desk;
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
  const Answer first = desk.answer();
  CHECK(first.looked.node == NodeId{"h1"});
  CHECK(first.looked.error.empty());
  CHECK(first.payload == "{\"a\":1}");
  CHECK_FALSE(desk.client.is_over());
  desk.transport.asked[1].done(LinkFailure{LinkFailureKind::unreachable, "no route to h2"});
  const Answer second = desk.answer();
  CHECK(second.looked.error == "no route to h2");
  CHECK_FALSE(second.looked.is_reached);
  CHECK(first.looked.is_reached);
  CHECK(desk.client.is_over());
}

TEST_CASE(
    "a failure that is no news is an answer as well, and no pause keeps a node from its try") {
  ServedNodes desk;
  desk.ask({"h1", "h2"});
  desk.transport.asked[0].done(LinkFailure{LinkFailureKind::unreachable, "no route"});
  CHECK(desk.answers().size() == 1);
  desk.ask({"h1"});
  REQUIRE(desk.transport.asked.size() == 3);
  desk.transport.asked[2].done(LinkFailure{LinkFailureKind::unreachable, "no route"});
  CHECK(desk.answers().size() == 1);
}

TEST_CASE("a program that ends otherwise, a lost link and silence are told with the reason") {
  ServedNodes desk;
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
  CHECK(desk.client.is_over());
}

TEST_CASE("a node that a job holds is not connected for this, and is said to be held") {
  ServedNodes desk;
  desk.hold("h1");
  desk.ask({"h1"});
  CHECK(desk.transport.asked.empty());
  desk.pool.want(address_of("h1", "h1"), target_with(Milliseconds{60'000}), "");
  const auto wire = desk.reach(0);
  CHECK(desk.asked_of(*wire).is_held);
}

TEST_CASE("checks that a beginning job ended are done again beside it") {
  ServedNodes desk;
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
  const Answer answer = desk.answer();
  CHECK(answer.payload == "{}");
}

TEST_CASE("checks that were killed on a free node are no answer, and are not begun again") {
  ServedNodes desk;
  desk.ask({"h1"});
  const auto wire = desk.reach(0);
  wire->say(ended_with(desk.asked_of(*wire).id, 0, SIGKILL));
  const Answer answer = desk.answer();
  CHECK(answer.looked.error == "the checks were killed by signal 9");
  CHECK(wire->take<LookAtHealth>().empty());
}

TEST_CASE("a client that goes away ends what it asked for") {
  ServedNodes desk;
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
  ServedNodes desk;
  desk.ask({"h1"});
  const auto wire = desk.reach(0);
  const std::string id = desk.asked_of(*wire).id;
  const std::string megabyte(1u << 20, 'x');
  for (int i = 0; i < 5 && desk.desk.output(NodeId{"h1"}, {id, false}, megabyte); ++i) {
  }
  const Answer answer = desk.answer();
  CHECK(answer.looked.error == "its answer is longer than 4 MiB");
  CHECK(wire->take<ExecStop>().size() == 1);
}

TEST_CASE("an idle node is measured, and what it says is handed on") {
  ServedNodes desk;
  MeasureNodes request = ServedNodes::measurement({"h1"});
  request.words = {"--only", "cpu"};
  desk.measure(request);
  const auto wire = desk.reach(0);
  const auto asked = desk.asked_of<MeasureNode>(*wire);
  CHECK_FALSE(asked.is_probe);
  CHECK(asked.words == std::vector<std::string>{"--only", "cpu"});
  CHECK(asked.profile == "profile: site\n");
  wire->say(ExecOutput{asked.id, false}, "{}");
  wire->say(ended_with(asked.id, 3));
  const Answer answer = desk.answer();
  CHECK(answer.looked.error.empty());
  CHECK(answer.payload == "{}");
  CHECK(desk.client.is_over());
}

TEST_CASE("a node that is not idle gives its own reason, an agent that refuses another one") {
  ServedNodes desk;
  desk.measure(ServedNodes::measurement({"h1", "h2"}));
  const auto one = desk.reach(0);
  const auto two = desk.reach(1);
  const std::string id = desk.asked_of<MeasureNode>(*one).id;
  one->say(ExecOutput{id, true}, "muster: this host is not idle: job j4 of muster runs here\n");
  one->say(ended_with(id, 3));
  two->say(ExecEnded{desk.asked_of<MeasureNode>(*two).id, {127, 0}, "ranks run there"});
  const auto answers = desk.answers();
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].looked.error == "this host is not idle: job j4 of muster runs here");
  CHECK(answers[1].looked.error == "ranks run there");
  CHECK(answers[1].looked.is_reached);
  CHECK_FALSE(answers[0].looked.is_void);
  CHECK(answers[1].looked.is_void);
  CHECK_FALSE(answers[0].looked.is_started);
  CHECK_FALSE(answers[1].looked.is_started);
}

TEST_CASE("a measurement that could not be started is told apart from one that failed") {
  ServedNodes desk;
  desk.measure(ServedNodes::probes({"h1", "h2", "h3"}));
  const auto one = desk.reach(0);
  const auto two = desk.reach(1);
  one->say(ended_with(desk.asked_of<MeasureNode>(*one).id, 127));
  two->say(ended_with(desk.asked_of<MeasureNode>(*two).id, 1));
  desk.desk.node_failed(NodeId{"h3"}, {LinkFailureKind::unreachable, "no route to host"});
  const auto answers = desk.answers();
  REQUIRE(answers.size() == 3);
  CHECK_FALSE(answers[0].looked.is_started);
  CHECK(answers[0].looked.is_void);  // no test of the node, for good or ill
  CHECK(answers[1].looked.is_started);
  CHECK_FALSE(answers[1].looked.is_void);
  CHECK_FALSE(answers[2].looked.is_started);
  CHECK(answers[2].looked.is_void);
  CHECK(answers[2].looked.error == "no route to host");
}

TEST_CASE("a node that a job holds is neither reached nor measured") {
  ServedNodes desk;
  desk.hold("h1");
  desk.hold("h2");
  desk.measure(ServedNodes::measurement({"h1", "h2"}));
  CHECK(desk.transport.asked.empty());
  const auto answers = desk.answers();
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].looked.error == "job job holds it");
  CHECK(answers[0].looked.is_reached);
  CHECK(answers[0].looked.is_void);
  CHECK(desk.client.is_over());
}

TEST_CASE("a job that got the node before it was reached keeps it from being measured") {
  ServedNodes desk;
  desk.measure(ServedNodes::measurement({"h1"}));
  desk.hold("h1");
  const auto wire = desk.reach(0);
  CHECK(wire->take<MeasureNode>().empty());
  const Answer answer = desk.answer();
  CHECK(answer.looked.error == "job job holds it");
}

TEST_CASE("an agent of before there were measurements is not asked for one, and that is said") {
  ServedNodes desk;
  desk.measure(ServedNodes::measurement({"h1"}));
  const auto wire = desk.reach(0, false);
  CHECK(wire->take<MeasureNode>().empty());
  const Answer answer = desk.answer();
  CHECK(answer.looked.error == "its agent is outdated and does not measure");
  CHECK(answer.looked.is_void);
  CHECK(desk.client.is_over());
}

TEST_CASE("a measurement that a beginning job ended is not begun again") {
  ServedNodes desk;
  desk.measure(ServedNodes::measurement({"h1"}));
  const auto wire = desk.reach(0);
  const std::string id = desk.asked_of<MeasureNode>(*wire).id;
  desk.hold("h1");
  wire->say(ended_with(id, 0, SIGKILL));
  const Answer answer = desk.answer();
  CHECK(answer.looked.error == "job job began there, which ended it");
  CHECK(answer.looked.is_void);
  CHECK(wire->take<MeasureNode>().empty());
}

TEST_CASE("a probe that was killed, or ended while a job had its node, says nothing of the node") {
  ServedNodes desk;
  desk.measure(ServedNodes::probes({"h1", "h2", "h3", "h4"}));
  std::vector<std::shared_ptr<FakeWire>> wires;
  for (std::size_t i = 0; i < 4; ++i) wires.push_back(desk.reach(i));
  const auto end = [&](std::size_t i, int code, int signal) {
    const std::string id = desk.asked_of<MeasureNode>(*wires[i]).id;
    wires[i]->say(ExecOutput{id, false}, "tcp_gbps - 9\n");
    wires[i]->say(ended_with(id, code, signal));
    const Answer answer = desk.answer();
    return answer.looked.is_void;
  };
  CHECK(end(0, 0, SIGKILL));  // its job is over already
  desk.hold("h2");
  CHECK(end(1, 0, 0));
  CHECK_FALSE(end(2, 0, 0));
  CHECK_FALSE(end(3, 1, 0));
}

TEST_CASE("probes have the words and the token of their run, and are told apart by their place") {
  ServedNodes desk;
  MeasureNodes request = ServedNodes::probes({"h1", "h2"});
  request.probes.push_back({NodeId{"h1"}, {"tcp-connect", "h2"}, Milliseconds{60'000}});
  desk.measure(request);
  REQUIRE(desk.transport.asked.size() == 2);
  const auto one = desk.reach(0);
  desk.reach(1);
  const auto asked = one->take<MeasureNode>();
  REQUIRE(asked.size() == 2);
  CHECK(asked[0].is_probe);
  CHECK(asked[0].profile.empty());
  CHECK(asked[0].token == "secret-of-a-run");
  CHECK(asked[1].words == std::vector<std::string>{"tcp-connect", "h2"});
  one->say(ExecOutput{asked[1].id, false}, "tcp_gbps - 9\n");
  one->say(ended_with(asked[1].id, 0));
  const Answer answer = desk.answer();
  CHECK(answer.looked.place == 2);
  CHECK(answer.payload == "tcp_gbps - 9\n");
  CHECK_FALSE(desk.client.is_over());
}

TEST_CASE("what a probe said before it was killed or failed is handed on with the reason") {
  ServedNodes desk;
  MeasureNodes request = ServedNodes::probes({"h1", "h2"});
  request.probes[0].limit = Milliseconds{30};
  desk.measure(request);
  const auto one = desk.reach(0);
  const auto two = desk.reach(1);
  const std::string late = desk.asked_of<MeasureNode>(*one).id;
  const std::string wrong = desk.asked_of<MeasureNode>(*two).id;
  one->say(ExecOutput{late, false}, "tcp_gbps - 9\n");
  two->say(ExecOutput{wrong, false}, "tcp_gbps - 8\n");
  two->say(ExecOutput{wrong, true}, "use: tcp-serve --port N");
  two->say(ended_with(wrong, 2));
  std::map<std::string, Answer> by_node;
  for (Answer& answer : desk.await_answers(2)) {
    by_node[answer.looked.node.value] = std::move(answer);
  }
  CHECK(by_node["h1"].looked.error == "no answer within 1 s: the benchmark has not ended");
  CHECK(by_node["h1"].payload == "tcp_gbps - 9\n");
  CHECK(by_node["h2"].looked.error == "the benchmark ended with 2: use: tcp-serve --port N");
  CHECK(by_node["h2"].payload == "tcp_gbps - 8\n");
  const auto stopped = one->take<ExecStop>();
  REQUIRE(stopped.size() == 1);
  CHECK(stopped[0].id == late);
}

TEST_CASE("a probe's limit counts from its start, not from when its node was looked for") {
  ServedNodes desk;
  MeasureNodes request = ServedNodes::probes({"h1"});
  request.timeout = Milliseconds{30};
  desk.measure(request);
  const auto wire = desk.reach(0);
  const std::string id = desk.asked_of<MeasureNode>(*wire).id;
  desk.io.run_for(std::chrono::milliseconds(60));
  CHECK(desk.answers().empty());
  wire->say(ended_with(id, 0));
  CHECK(desk.answers().size() == 1);
}

TEST_CASE("probes of nodes that are not meant are refused as a whole") {
  ServedNodes desk;
  MeasureNodes request = ServedNodes::probes({"h1"});
  request.probes.push_back({NodeId{"h9"}, {"cpu"}, Milliseconds{60'000}});
  desk.measure(request);
  CHECK(desk.transport.asked.empty());
  const auto said = desk.client.messages();
  REQUIRE(said.size() == 1);
  CHECK(std::get<Refused>(said[0].message).message == "a benchmark of h9, not meant");
}

TEST_CASE("a node that nobody waits for any more is not dialled again") {
  ServedNodes desk;
  desk.ask({"h1"});
  desk.transport.asked[0].done(LinkFailure{LinkFailureKind::unreachable, "no route"});
  CHECK(desk.answers().size() == 1);
  desk.io.run_for(std::chrono::milliseconds(300));  // the first pause is 50 ms
  CHECK(desk.transport.asked.size() == 1);
}

TEST_CASE("a node that a job wants is dialled on after a look at it") {
  ServedNodes desk;
  desk.pool.want(address_of("h1", "h1"), ComputeTarget{}, "");
  desk.ask({"h1"});
  desk.transport.asked[0].done(LinkFailure{LinkFailureKind::unreachable, "no route"});
  CHECK(desk.answers().size() == 1);
  desk.io.run_for(std::chrono::milliseconds(300));
  CHECK(desk.transport.asked.size() == 2);
}

TEST_CASE("answers that are larger together than a client's queue all come to one that reads") {
  ServedNodes desk;
  std::vector<std::string> nodes;
  for (int i = 0; i < 40; ++i) nodes.push_back("n" + std::to_string(i));
  desk.ask(nodes);
  const std::string much(3u << 20, 'x');  // 120 MB; a queue has 64 at most
  std::vector<std::shared_ptr<FakeWire>> wires;
  for (std::size_t i = 0; i < nodes.size(); ++i) wires.push_back(desk.reach(i));
  for (const auto& wire : wires) {
    const LookAtHealth asked = desk.asked_of(*wire);
    wire->say(ExecOutput{asked.id, false}, much);
    wire->say(ended_with(asked.id, 0));
  }
  std::size_t whole = 0;
  for (int turn = 0; turn < 400 && !desk.client.is_over(); ++turn) {
    for (const Answer& answer : desk.answers()) whole += answer.payload == much ? 1 : 0;
  }
  CHECK(whole == nodes.size());
  CHECK(desk.client.is_over());
}

TEST_CASE("while much waits for a client that does not read, no more nodes are requested it") {
  ServedNodes desk;
  std::vector<std::string> nodes;
  for (int i = 0; i < 40; ++i) nodes.push_back("n" + std::to_string(i));
  desk.ask(nodes);
  const std::string much(3u << 20, 'x');
  std::vector<std::shared_ptr<FakeWire>> wires;
  std::size_t asked = 0;
  const auto answer_what_is_asked = [&](FakeWire& wire) {
    for (const LookAtHealth& look : wire.take<LookAtHealth>()) {
      wire.say(ExecOutput{look.id, false}, much);
      wire.say(ended_with(look.id, 0));
      ++asked;
    }
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    wires.push_back(desk.reach(i));
    answer_what_is_asked(*wires.back());
  }
  CHECK(asked < nodes.size());
  CHECK(asked > 20);
  std::size_t whole = 0;
  for (int turn = 0; turn < 400 && !desk.client.is_over(); ++turn) {
    for (const Answer& answer : desk.answers()) whole += answer.payload == much ? 1 : 0;
    for (const auto& wire : wires) answer_what_is_asked(*wire);
  }
  CHECK(asked == nodes.size());
  CHECK(whole == nodes.size());
  CHECK(desk.client.is_over());
}
