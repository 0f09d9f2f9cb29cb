// `nodes`, `drain` and `undrain`: what they ask a controller, and what they say of its answers.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/command_site.h"
#include "tests/cli/fake_controller.h"

using namespace muster;

namespace {

NodeLine known_node(const std::string& name, const std::string& link) {
  NodeLine line;
  line.node = name;
  line.link = link;
  line.host_name = "host-" + name;
  return line;
}

// Says which build it is, what nodes there are, and `reply` to anything else.
FakeController::Answer knowing(const NodesAnswer& nodes, const FromController& reply,
                               std::vector<ToController>* asked = nullptr) {
  return of_this_build([=](const ToController& request) {
    if (std::holds_alternative<AskNodes>(request)) return encode(FromController(nodes));
    if (asked != nullptr) asked->push_back(request);
    return encode(reply);
  });
}

NodesAnswer three_nodes() {
  NodesAnswer answer;
  answer.nodes = {known_node("h10", "up"), known_node("h2", "down: it is dead"),
                  known_node("old", "not connected")};
  answer.nodes[0].owner = "kite";
  return answer;
}

std::vector<std::string> names_in(const Document& nodes) {
  std::vector<std::string> names;
  for (const Document& node : nodes) names.push_back(node["name"].get<std::string>());
  return names;
}

const char* const two_targets_file =
    "compute:\n"
    "  lab: {nodes: [h2, {name: h3, host: 10.0.0.3}]}\n"
    "  lap: {nodes: [h3, h10]}\n";

}  // namespace

TEST_CASE("nodes shows each once: those in use, and those of cluster files, by their number") {
  const CommandSite site(two_targets_file);
  FakeController controller(site.home(), FakeController::any_number,
                            knowing(three_nodes(), Refused{}));
  const SaidByVerb said = site.type("nodes -o json");
  CHECK(said.code == 0);
  CHECK(said.err.empty());
  const Document nodes = said.document();
  REQUIRE(names_in(nodes) == std::vector<std::string>{"h2", "h3", "h10"});
  CHECK(nodes[0]["link"] == "down: it is dead");
  CHECK(nodes[1]["link"] == "not connected");
  CHECK(nodes[1]["host_name"] == "10.0.0.3");
  CHECK(nodes[2]["job"] == "kite");
  CHECK(site.type("nodes").out.starts_with("NODE  LINK "));
}

TEST_CASE("where there are no nodes, nodes says why instead of an empty table") {
  const CommandSite site("compute: {}\n");
  FakeController controller(site.home(), FakeController::any_number, knowing({}, Refused{}));
  const SaidByVerb said = site.type("nodes");
  CHECK(said.code == 0);
  CHECK(said.out.empty());
  CHECK_THAT(said.err, ContainsSubstring("no nodes yet"));
  CHECK(site.type("nodes -o json").document() == Document::array());
}

TEST_CASE("a cluster file that is not there is no empty cluster") {
  const CommandSite site;
  FakeController controller(site.home(), FakeController::any_number, knowing({}, Refused{}));
  const SaidByVerb said = site.type("nodes --cluster " + site.path("none.yml"));
  CHECK(said.code == 90);
  CHECK(said.out.empty());
  CHECK_THAT(said.err, ContainsSubstring("no cluster file"));
  for (const std::string line : {"drain h1 --reason x", "status", "list"}) {
    const SaidByVerb other = site.type(line + " --cluster " + site.path("none.yml"));
    CHECK(other.code == 90);
    CHECK_THAT(other.err, ContainsSubstring("no cluster file"));
  }
  // One that is wrong is told, and what could be read of it is shown.
  const std::string wrong = site.add("wrong.yml", "compute: {lab: {nodes: [h7], colour: red}}\n");
  const SaidByVerb told = site.type("nodes -o json --cluster " + wrong);
  CHECK(told.code == 90);
  CHECK_THAT(told.err, ContainsSubstring("colour"));
  CHECK(names_in(told.document()) == std::vector<std::string>{"h7"});
}

TEST_CASE("a controller that cannot answer is told, with 99") {
  const CommandSite site;
  FakeController controller(site.home(), FakeController::any_number,
                            of_this_build([](const ToController&) {
                              return encode(FromController(Accepted{JobId{"kite"}, ""}));
                            }));
  const SaidByVerb said = site.type("nodes");
  CHECK(said.code == 99);
  CHECK_THAT(said.err, ContainsSubstring("unexpected answer"));
}

TEST_CASE("nodes says what muster has stopped doing by itself, and how to let it again") {
  const CommandSite site;
  NodesAnswer answer = three_nodes();
  answer.breakers = {{"gpu.xid@lab", "5 of 8 nodes", from_ms(0), true},
                     {"lab", "4 of 8 nodes", from_ms(0), false}};
  std::vector<ToController> asked;
  FakeController controller(site.home(), FakeController::any_number,
                            knowing(answer, Accepted{JobId{}, ""}, &asked));
  const SaidByVerb said = site.type("nodes");
  CHECK_THAT(said.err,
             ContainsSubstring("muster drains no node for gpu.xid@lab: 5 of 8 nodes; "
                               "once fixed, run: muster nodes --reset-breaker gpu.xid@lab"));
  CHECK_THAT(said.err, ContainsSubstring("muster cordons no node of lab: 4 of 8 nodes"));
  const SaidByVerb rearmed = site.type("nodes --rearm lab");
  CHECK(rearmed.code == 0);
  CHECK(rearmed.out.empty());
  CHECK_THAT(rearmed.err, ContainsSubstring("what lab fails from now on counts again"));
  REQUIRE(asked.size() == 1);
  CHECK(std::get<ResetBreaker>(asked[0]).target == "lab");
}

TEST_CASE("a node is drained and taken back by name, and only one that there is") {
  const CommandSite site;
  std::vector<ToController> asked;
  FakeController controller(site.home(), FakeController::any_number,
                            knowing(three_nodes(), Accepted{JobId{}, ""}, &asked));
  const SaidByVerb drained = site.type("drain h2 --reason fan --move-after 5m");
  CHECK(drained.code == 0);
  CHECK_THAT(drained.err, ContainsSubstring("h2 drained"));
  REQUIRE(asked.size() == 1);
  const auto& drain = std::get<SetDrain>(asked[0]);
  CHECK(drain.node.value == "h2");
  CHECK(drain.drained);
  CHECK(drain.reason == "fan");
  CHECK(drain.move_after == Milliseconds{300'000});
  // h3 is known by the cluster file alone.
  const SaidByVerb back = site.type("undrain h3 -o json");
  CHECK_THAT(back.err, ContainsSubstring("h3 resumed"));
  CHECK(back.document() == Document{{"name", "h3"}, {"drained", false}, {"drain_reason", ""}});
  REQUIRE(asked.size() == 2);
  CHECK_FALSE(std::get<SetDrain>(asked[1]).drained);
  const SaidByVerb unknown = site.type("drain h4 --reason fan");
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, ContainsSubstring("there is no node 'h4'; did you mean 'h"));
  const SaidByVerb no_reason = site.type("drain h2 --reason", {" \t"});
  CHECK(no_reason.code == 2);
  CHECK_THAT(no_reason.err, ContainsSubstring("--reason: it is empty"));
  CHECK(asked.size() == 2);
}

TEST_CASE("of a node that had its work all along, undrain says what the controller does") {
  const CommandSite site;
  const std::string note = "h2 was neither drained nor cordoned";
  FakeController controller(site.home(), FakeController::any_number,
                            knowing(three_nodes(), Accepted{JobId{}, note}));
  const SaidByVerb said = site.type("undrain h2");
  CHECK(said.code == 0);
  CHECK(said.err == "muster: " + note + "\n");
}

TEST_CASE("what a controller refuses ends with the code that it names") {
  const CommandSite site;
  FakeController controller(site.home(), FakeController::any_number,
                            knowing(three_nodes(), Refused{"not now", 77}));
  for (const char* line : {"drain h2 --reason fan", "undrain h2", "nodes --rearm lab"}) {
    CAPTURE(line);
    const SaidByVerb said = site.type(line);
    CHECK(said.code == 77);
    CHECK(said.out.empty());
    CHECK(said.err == "muster: not now\n");
  }
}
