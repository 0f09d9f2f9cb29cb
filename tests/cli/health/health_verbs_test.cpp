// The verbs of `health` as a user types them: nodes asked through a controller that is only a
// socket, and a profile learned from a recorded node.
#include <nlohmann/json.hpp>

#include "cli/client/start.h"
#include "cli/health/profile.h"
#include "cli/terminal/escape.h"
#include "health/checks/check_names.h"
#include "templates/profile/reader.h"
#include "tests/catch.h"
#include "tests/cli/command_site.h"
#include "tests/cli/fake_controller.h"
#include "tests/cli/looked_node.h"
#include "tests/cli/recorded_node.h"

using namespace muster;

namespace {

std::string looked(const char* node, const std::string& text, const char* error = "") {
  return encode(FromController(NodeLooked{NodeId{node}, error}), text);
}

std::string sound_text() {
  return Looked({a_finding("ib.state", "mlx5_0:1", CheckStatus::pass, "4: ACTIVE")}).text();
}

// h2 runs another kernel than h1 and h3.
std::string three_kernels() {
  return looked("h1", Looked().text()) + looked("h2", Looked({}, "5.15").text()) +
         looked("h3", Looked().text());
}

FakeController::Answer answering(const std::string& bytes,
                                 std::vector<ToController>* asked = nullptr) {
  return [=](const ToController& request) {
    if (std::holds_alternative<AskVersion>(request)) {
      return encode(FromController(VersionAnswer{own_build_id(), 7, 0}));
    }
    if (asked != nullptr) asked->push_back(request);
    return bytes;
  };
}

Document of_node(const SaidByVerb& said, const std::string& name) {
  const Document document = said.document();
  for (const Document& node : document["nodes"]) {
    if (node["node"] == name) return node;
  }
  return nullptr;
}

const std::string enforcing = "profile: site\nchecks: {host.versions: {mode: enforce}}\n";

}  // namespace

TEST_CASE("the profile that was named judges what nodes are compared by, theirs does not") {
  const CommandSite site;
  std::vector<ToController> asked;
  FakeController controller(site.home(), FakeController::any_number,
                            answering(three_kernels(), &asked));
  const std::string profile = site.add("site.yml", enforcing);
  const SaidByVerb named = site.type("health h[1-3] -o json --profile " + profile);
  CHECK(named.code == 3);
  CHECK(of_node(named, "h2")["state"] == "unclear");
  CHECK(of_node(named, "h2")["why"] == "host.versions: not as on most nodes");
  CHECK(of_node(named, "h2")["target"] == "lab");
  CHECK(of_node(named, "h1")["state"] == "ok");
  const SaidByVerb plain = site.type("health h[1-3] -o json --timeout 7s --check host.*");
  CHECK(plain.code == 0);
  CHECK(of_node(plain, "h2")["state"] == "ok");
  REQUIRE(asked.size() == 2);
  const auto& with_profile = std::get<LookAtNodes>(asked[0]);
  REQUIRE(with_profile.nodes.size() == 1);
  CHECK(with_profile.nodes[0].target.nodes.size() == 3);
  CHECK_THAT(with_profile.nodes[0].profile, ContainsSubstring("host.versions"));
  const auto& without = std::get<LookAtNodes>(asked[1]);
  CHECK(without.nodes[0].profile.empty());
  CHECK(without.timeout == Milliseconds{7000});
  CHECK(without.wanted.checks == std::vector<std::string>{"host.*"});
}

TEST_CASE("the profile of a compute target judges its nodes") {
  const CommandSite site("compute:\n  lab:\n    nodes: [\"h[1-3]\"]\n    health: " +
                         std::string("{checks: {host.versions: {mode: enforce}}}\n"));
  FakeController controller(site.home(), FakeController::any_number, answering(three_kernels()));
  const SaidByVerb said = site.type("health --target lab -o json");
  CHECK(said.code == 3);
  CHECK(of_node(said, "h2")["state"] == "unclear");
}

TEST_CASE("each node that was asked is told of, whatever became of it") {
  const CommandSite site;
  NodeLooked held{NodeId{"h2"}, ""};
  held.drained = "muster:node:gpu.xid:gpu3 6f";
  FakeController controller(
      site.home(), FakeController::any_number,
      answering(looked("h1", sound_text()) + encode(FromController(held), Looked().text()) +
                looked("stranger", Looked().text()) + looked("h3", "", "connection refused")));
  const std::string metrics = site.path("nodes.prom");
  const SaidByVerb said = site.type("health h[1-3] -o json --prometheus-file " + metrics);
  CHECK(said.code == 1);
  CHECK(said.document()["nodes"].size() == 3);
  CHECK(of_node(said, "h1")["state"] == "ok");
  CHECK(of_node(said, "h2")["state"] == "drained");
  CHECK(of_node(said, "h2")["why"] == held.drained);
  CHECK(of_node(said, "h3")["state"] == "unreachable");
  CHECK(of_node(said, "h3")["why"] == "connection refused");
  CHECK_THAT(site.text_of("nodes.prom"), ContainsSubstring("host=\"h3\""));
  CHECK(site.type("health h[1-3] -o json --prometheus-file " + site.path("none/a.prom")).code ==
        99);
}

TEST_CASE("monitors and people are told the same of every answer") {
  struct Row {
    const char* at;
    const char* value;
    int code;
    int plugin;
  };
  for (const Row& row :
       std::vector<Row>{{"/looks", "1", 0, 0},
                        {"/findings/0/status", "\"fail\"", 3, 3},
                        {"/findings/0/status", "\"unknown\"", 3, 3},
                        {"/findings", "[]", 3, 3},
                        {"/verdict/unclear", R"([{"check": "gpu.count", "device": ""}])", 3, 3},
                        {"/verdict/drains", R"([{"check": "gpu.count"}])", 3, 3},
                        {"/verdict/state", "\"drained\"", 3, 3},
                        {"/verdict/state", "null", 3, 3}}) {
    CAPTURE(row.at, row.value);
    Document changed = Document::parse(sound_text());
    changed[Document::json_pointer(row.at)] = Document::parse(row.value);
    const CommandSite site;
    FakeController controller(site.home(), FakeController::any_number,
                              answering(looked("h1", changed.dump())));
    CHECK(site.type("health h1").code == row.code);
    CHECK(site.type("health h1 -o nagios").code == row.plugin);
  }
}

TEST_CASE("nodes of which nothing was heard before the controller went are no pass") {
  const CommandSite site;
  FakeController controller(site.home(), FakeController::any_number,
                            answering(looked("h1", sound_text())));
  const SaidByVerb said = site.type("health h1 h2 -o json");
  CHECK(said.code == 3);
  CHECK(of_node(said, "h1")["state"] == "ok");
  CHECK(of_node(said, "h2")["state"] == "unreachable");
  CHECK(of_node(said, "h2")["target"] == "lab");
}

TEST_CASE("a question about nodes that cannot be asked ends with the code of its reason") {
  const CommandSite site;
  FakeController controller(site.home(), FakeController::any_number,
                            answering(encode(FromController(Refused{"not now", 77}))));
  const SaidByVerb refused = site.type("health h1");
  CHECK(refused.code == 77);
  CHECK(refused.err == "muster: not now\n");
  struct Row {
    std::string line;
    int code;
    const char* says;
  };
  for (const Row& row : std::vector<Row>{
           {"health h9", 2, "there is no node 'h9'"},
           {"health h1 --profile " + site.path("none.yml"), 90, "none.yml"},
           {"health h1 --cluster " + site.path("none.yml"), 99, "no cluster file"},
           {"health h1 --state x", 2, "--state is for this host, not for nodes"},
           {"health h1 --slurm", 2, "--slurm is for this host, not for nodes"},
           {"health h1 --forget", 2, "--no-state is for this host, not for nodes"},
           {"health h1 --timeout 0s", 2, "--timeout: expected more than 0 and at most"},
           {"health h1 --timeout 601s", 2, "--timeout: expected more than 0 and at most"},
           {"health active h1 --only disk", 2, "--only disk: --disk names where"},
           {"health active h1 --only dsk", 2, "did you mean 'disk'"},
       }) {
    CAPTURE(row.line);
    const SaidByVerb said = site.type(row.line);
    CHECK(said.code == row.code);
    CHECK(said.out.empty());
    CHECK_THAT(said.err, ContainsSubstring(row.says));
  }
}

TEST_CASE("without a state directory no node is asked, which is told") {
  const CommandSite site;
  const std::string file = site.add("file", "");
  ::setenv("MUSTER_HOME", (file + "/home").c_str(), 1);  // the site puts it back
  const SaidByVerb said = site.type("health h1");
  CHECK(said.code == 99);
  CHECK_THAT(said.err, ContainsSubstring("cannot use the state directory"));
}

TEST_CASE("a node that could not be measured is unknown for each check that was wanted") {
  const CommandSite site;
  std::vector<ToController> asked;
  NodeLooked busy{NodeId{"h1"}, "job kite holds it"};
  busy.is_started = false;
  NodeLooked lost{NodeId{"h2"}, "connection refused"};
  lost.is_reached = false;
  FakeController controller(
      site.home(), FakeController::any_number,
      answering(encode(FromController(busy)) + encode(FromController(lost)), &asked));
  const SaidByVerb said = site.type("health active h1 h2 --only cpu -o json");
  CHECK(said.code == 3);
  const Document held = of_node(said, "h1");
  CHECK(held["state"] == "unclear");
  CHECK(held["target"] == "lab");
  CHECK(held["why"] == "not started: job kite holds it");
  std::istringstream lines(site.type("health active h1 h2 --only cpu -o jsonl").out);
  std::vector<std::string> told;
  for (std::string line; std::getline(lines, line);) {
    const Document one = Document::parse(line);
    told.push_back(one["host"].get<std::string>() + " " + one["check"].get<std::string>() + " " +
                   one["status"].get<std::string>());
  }
  CHECK(told == std::vector<std::string>{"h2 host.agent unknown", "h1 perf.cpu unknown"});
  CHECK(of_node(said, "h2")["why"] == "not started: connection refused");
  CHECK(of_node(said, "h2")["state"] == "unreachable");
  REQUIRE(asked.size() == 2);
  CHECK(std::get<MeasureNodes>(asked[0]).words == std::vector<std::string>{"--only=cpu"});
  CHECK_THAT(said.err, ContainsSubstring("measures 2 nodes of lab, side by side: cpu: about"));
}

TEST_CASE("what is learned of a node is a profile that can be read, printed or in a new file") {
  RecordedNode recorded;
  recorded.write();
  const CommandSite site;
  HealthLearnOptions options;
  const auto learn = [&] {
    return site.caught([&] { return learn_health(recorded.options(), options, {}); });
  };
  const SaidByVerb printed = learn();
  CHECK(printed.code == 0);
  CHECK_THAT(printed.err, ContainsSubstring("skipped: minimums: "));
  CHECK_THAT(printed.err, !ContainsSubstring("wrote "));
  const auto file = read_health_profile("learned", printed.out, names_of_checks());
  CHECK(file.findings.empty());
  CHECK(file.profile.name == "learned-n17");
  CHECK(file.profile.match_gpu_count == 8);
  CHECK(file.profile.gpu.count == 8);
  options.file = site.path("h100.yml");
  options.name = "good";
  const SaidByVerb written = learn();
  CHECK(written.code == 0);
  CHECK(written.out.empty());
  CHECK_THAT(written.err, ContainsSubstring("wrote " + options.file +
                                            "; next: muster health --profile " + options.file));
  CHECK(read_health_profile("h100.yml", site.text_of("h100.yml"), {}).profile.name == "good");
  const SaidByVerb again = learn();
  CHECK(again.code == 2);
  CHECK_THAT(again.err, ContainsSubstring("exists; choose another name"));
  CHECK_THAT(again.err, !ContainsSubstring("wrote "));
  options.measure = true;
  CHECK(learn().code == 2);  // a recorded host has no speed
}

TEST_CASE("the checks are listed with the modes of the profile that was named, or without one") {
  const CommandSite site;
  const auto mode_of_versions = [&](const std::string& line) {
    for (const Document& check : site.type(line).document()) {
      if (check["id"] == "host.versions") return check["mode"].get<std::string>();
    }
    return std::string("not listed");
  };
  CHECK(mode_of_versions("health checks -o json") == "observe");
  const std::string profile = site.add("site.yml", enforcing);
  CHECK(mode_of_versions("health checks -o json --profile " + profile) == "enforce");
  CHECK_THAT(site.type("health checks").out, ContainsSubstring("host.versions "));
  std::istringstream lines(site.type("health checks").out);
  for (std::string text; std::getline(lines, text);) {
    INFO(text);
    CHECK(text_width(text) <= 100);
  }
  const SaidByVerb one = site.type("health checks ib.symbol");
  CHECK_THAT(one.out, ContainsSubstring("P/counters/symbol_error"));
  CHECK_THAT(one.out, ContainsSubstring("drain_per_h     120 1/h"));
  CHECK(site.type("health checks ib.symbol -o json").document()["limits"].size() == 4);
  CHECK(site.type("health checks ib.symbl").code == 2);
  const SaidByVerb none = site.type("health checks --profile " + site.path("none.yml"));
  CHECK(none.code == 90);
  CHECK(none.out.empty());
  CHECK_THAT(none.err, ContainsSubstring("none.yml"));
}

TEST_CASE("shipped profiles are listed by name, printed whole, and an unknown one is refused") {
  const CommandSite site;
  std::map<std::string, Document> listed;
  for (const Document& one : site.type("health profiles -o json").document()) {
    listed[one["name"].get<std::string>()] = one;
  }
  CHECK(listed.size() > 20);
  REQUIRE(listed.contains("ND96isr_H100_v5"));
  CHECK(listed["ND96isr_H100_v5"]["gpus"] == 8);
  CHECK(listed["ND96isr_H100_v5"]["rate_gbps"] == 400);
  CHECK_THAT(site.type("health profiles").out, ContainsSubstring("\nND96isr_H100_v5 "));
  const SaidByVerb whole = site.type("health profiles ND96isr_H100_v5");
  CHECK(whole.code == 0);
  CHECK_THAT(whole.out, ContainsSubstring("profile: ND96isr_H100_v5\n"));
  const SaidByVerb unknown = site.type("health profiles ND96isr_H100_v6");
  CHECK(unknown.code == 2);
  CHECK(unknown.out.empty());
  CHECK_THAT(unknown.err, ContainsSubstring("ND96isr_H100_v5"));
}
