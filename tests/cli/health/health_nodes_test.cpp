// Nodes that were asked for their health: what they say is read with distrust, compared and shown.
#include <nlohmann/json.hpp>

#include "cli/health/cluster/compare.h"
#include "cli/health/cluster/nodes.h"
#include "cli/health/result.h"
#include "health/model/check.h"
#include "health/output/finding_report.h"
#include "scheduler/text/duration.h"
#include "tests/catch.h"
#include "tests/cli/looked_node.h"

using namespace muster;

namespace {

constexpr const char* asked_at = "2027-01-15T08:00:00.000Z";

HealthFinding down_finding() {
  return a_finding("ib.state", "mlx5_3:1", CheckStatus::fail, "1: DOWN", {"raw"});
}
HealthFinding active_finding() {
  return a_finding("ib.state", "mlx5_0:1", CheckStatus::pass, "4: ACTIVE");
}

// h2 is drained, h10 does not answer, h3 is unknown, h1 is well.
std::vector<HostHealth> four() {
  Looked unclear;
  NodeVerdict open;
  open.unclear = {{"gpu.count", ""}};
  open.unconfirmed = {{"ib.state", "mlx5_0:1"}};
  unclear.look.verdict = report_of(open);
  std::vector<HostHealth> answers{Looked({active_finding()}).of("h1"),
                                  no_answer("h10", "cluster", "connection refused", asked_at),
                                  unclear.of("h3"),
                                  Looked({down_finding()}).drained_by(down_finding()).of("h2")};
  sort_worst_first(answers);
  return answers;
}

std::vector<std::string> names_of(const std::vector<HostHealth>& answers) {
  std::vector<std::string> names;
  for (const HostHealth& answer : answers) names.push_back(answer.node);
  return names;
}

NodeAddress a_node(const char* name) {
  NodeAddress node;
  node.id = NodeId{name};
  return node;
}

std::vector<ComputeTarget> two_targets() {
  std::vector<ComputeTarget> targets(2);
  targets[0].name = "east";
  targets[1].name = "west";
  for (const char* node : {"h01", "h02", "h03", "gpu1"}) {
    targets[0].nodes.push_back(a_node(node));
  }
  for (const char* node : {"h03", "w1"}) targets[1].nodes.push_back(a_node(node));
  return targets;
}

// "east: h01 h02; west: w1"
std::string chosen(const std::string& target, const std::vector<std::string>& words) {
  try {
    std::string text;
    for (const ComputeTarget& one : chosen_nodes(two_targets(), target, words)) {
      text += (text.empty() ? "" : "; ") + one.name + ":";
      for (const NodeAddress& node : one.nodes) text += " " + node.id.value;
    }
    return text;
  } catch (const VerbEnd& end) {
    return end.what();
  }
}

void compare(std::vector<HostHealth>& answers, const HealthProfile& profile,
             const std::vector<std::string>& checks = {}) {
  compare_nodes(
      answers, checks, [&](const HostHealth&) { return profile; }, from_ms(1'800'000'000'000));
}

HealthProfile enforcing_versions() {
  HealthProfile profile;
  profile.checks["host.versions"].mode = CheckMode::enforce;
  return profile;
}

}  // namespace

TEST_CASE("an answer says what the node's own look said, under the node's name") {
  const HostHealth answer =
      Looked({active_finding(), down_finding()}).drained_by(down_finding()).of("h2");
  CHECK(answer.fitness == NodeFitness::drained);
  CHECK(answer.why == "muster:node:ib.state:mlx5_3:1 6f01ab22");
  CHECK(answer.profile == "h100");
  CHECK_FALSE(answer.beside_ranks);
  REQUIRE(answer.findings.size() == 2);
  const FindingReport& fault = answer.findings[0];
  CHECK(fault.host == "h2");
  CHECK(fault.check == "ib.state");
  CHECK(fault.value.text == "1: DOWN");
  CHECK(fault.evidence == std::vector<std::string>{"raw"});
  CHECK(fault.code == MonitorCode::critical);
  CHECK(answer.findings[1].code == MonitorCode::ok);
  CHECK(answer.versions.at("host.versions").at("kernel") == "6.1");
  // A finding goes there and back unchanged.
  const Document sent = Document::parse(Looked({down_finding()}).text())["findings"][0];
  Document back = report_document(Looked({down_finding()}).of("host-name").findings[0]);
  CHECK(back == sent);
}

TEST_CASE("an answer that is none is never a pass") {
  const std::string whole = Looked({active_finding(), down_finding()}).text();
  std::vector<std::string> wrong{"", "null", "[]", "{}", "7", "\"x\"", "\xff\xfe", whole + "x"};
  for (std::size_t size = 0; size < whole.size(); size += 7) wrong.push_back(whole.substr(0, size));
  wrong.push_back(std::string(100'000, '['));
  for (const char* at : {"/verdict/state", "/verdict", "/findings", "/beside_ranks", "/versions"}) {
    for (const char* value : {"7", "null", "\"fine\"", "[[]]", "{\"a\":{\"b\":1}}"}) {
      Document changed = Document::parse(whole);
      changed[Document::json_pointer(at)] = Document::parse(value);
      const HostHealth answer = read_answer("h", "t", changed.dump(), asked_at);
      CAPTURE(at, value);
      CHECK(answer.fitness == NodeFitness::unclear);
    }
  }
  for (const std::string& text : wrong) {
    const HostHealth answer = read_answer("h", "t", text, asked_at);
    CHECK(answer.fitness == NodeFitness::unclear);
    CHECK_THAT(answer.why, ContainsSubstring("cannot be read"));
    CHECK(answer.why.find("json.exception") == std::string::npos);
    REQUIRE(answer.findings.size() == 1);
    CHECK(answer.findings[0].code == MonitorCode::unknown);
    CHECK(health_exit({answer}) == HealthExit::unclear);
  }
}

TEST_CASE("an answer that cannot be read says in plain words what of it") {
  Document answer = Document::parse(Looked({active_finding()}).text());
  const auto why = [&](const char* at, const Document& value) {
    Document changed = answer;
    changed[Document::json_pointer(at)] = value;
    return read_answer("h", "t", changed.dump(), asked_at).why;
  };
  const std::string begin = "its answer cannot be read: ";
  CHECK(why("/verdict", nullptr) == begin + "no \"verdict\"");
  CHECK(why("/verdict", Document::object()) == begin + "no \"state\"");
  CHECK(why("/verdict/state", nullptr) == begin + "no \"state\"");
  CHECK(why("/took_ms", "long") ==
        begin + "\"took_ms\": expected a whole number that fits its field");
  CHECK(why("/findings/0/status", 7) == begin + "\"findings\": type must be string, but is number");
  CHECK(why("/counts/first_readings", -1) == begin + "\"first_readings\": no number of counters");
  CHECK(read_answer("h", "t", "{", asked_at).why == begin + "it is no JSON");
}

TEST_CASE("an answer that contradicts itself is unclear, and says why") {
  const Looked sound({active_finding()});
  const auto judged = [](const Looked& looked) { return looked.of("h1"); };
  CHECK(judged(sound).fitness == NodeFitness::ok);
  struct Row {
    Looked looked;
    const char* why;
  };
  Looked drained = Looked(sound).drained_by(down_finding());
  drained.look.verdict.state = HealthExit::healthy;
  Looked open = sound;
  open.look.verdict.unclear = {{"gpu.count", ""}};
  Looked by_nothing = sound;
  by_nothing.look.verdict.state = HealthExit::drained;
  for (const Row& row :
       {Row{drained, "healthy, but ib.state mlx5_3:1 drains it"},
        Row{open, "healthy, but required check did not pass: gpu.count"},
        Row{Looked({down_finding()}), "healthy, but not yet confirmed: ib.state mlx5_3:1"},
        Row{by_nothing, "drained, but nothing says so"}}) {
    const HostHealth answer = judged(row.looked);
    CHECK(answer.fitness == NodeFitness::unclear);
    CHECK(answer.why == std::string("its answer contradicts itself: ") + row.why);
    CHECK(answer.findings.back().evidence == std::vector{answer.why});
  }
}

TEST_CASE("a node for which nothing speaks is unknown") {
  std::vector<HostHealth> answers{
      Looked().of("a"),
      Looked({a_finding("gpu.temp", "gpu0", CheckStatus::unknown, "", {"why"})}).of("b"),
      Looked({active_finding()}).of("c")};
  compare(answers, {}, {"ib.*", "gpu.*"});
  CHECK(answers[0].fitness == NodeFitness::unclear);
  CHECK(answers[0].why == "nothing was checked");
  CHECK(answers[1].fitness == NodeFitness::unclear);
  CHECK(answers[1].why == "every check is unknown");
  CHECK(answers[2].fitness == NodeFitness::ok);
}

TEST_CASE("an answer that is nested too deeply to be written out again is none") {
  const std::string whole = Looked({active_finding()}).text();
  const auto nested = [&](const std::string& open, const std::string& close, int depth) {
    std::string value;
    for (int i = 0; i < depth; ++i) value += open;
    value += "1";
    for (int i = 0; i < depth; ++i) value += close;
    return whole.substr(0, whole.rfind('}')) + ",\"more\":" + value + "}";
  };
  for (const auto& [open, close] : {std::pair{"[", "]"}, std::pair{"{\"a\":", "}"}}) {
    const HostHealth shallow = read_answer("h", "t", nested(open, close, 8), asked_at);
    CHECK(shallow.fitness == NodeFitness::ok);
    CHECK_FALSE(nodes_document({shallow})["nodes"][0].contains("more"));  // what is not ours
    for (const int depth : {64, 200'000}) {
      const HostHealth deep = read_answer("h", "t", nested(open, close, depth), asked_at);
      CHECK(deep.fitness == NodeFitness::unclear);
      CHECK_THAT(deep.why, ContainsSubstring("nested too deeply"));
      CHECK(nodes_document({deep}).dump().size() < 2'000);
    }
  }
}

TEST_CASE("a status that nobody knows is unknown") {
  Document changed = Document::parse(Looked({active_finding()}).text());
  changed["findings"][0]["status"] = "splendid";
  const HostHealth answer = read_answer("h", "t", changed.dump(), asked_at);
  REQUIRE(answer.findings.size() == 1);
  CHECK(answer.findings[0].code == MonitorCode::unknown);
}

TEST_CASE("nodes are shown worst first, and the last line counts and names them") {
  const auto answers = four();
  CHECK(names_of(answers) == std::vector<std::string>{"h2", "h10", "h3", "h1"});
  CHECK(nodes_summary(answers) == "1 ok (h1), 1 drained (h2), 1 unclear (h3), 1 unreachable (h10)");
  const std::string text = nodes_text(answers, {});
  CHECK(text.ends_with("\n" + nodes_summary(answers) + "\n"));
  CHECK_THAT(text, ContainsSubstring("connection refused"));
  CHECK_THAT(text, ContainsSubstring("required check did not pass: gpu.count; not yet confirmed: "
                                     "ib.state mlx5_0:1"));
  CHECK_THAT(text, ContainsSubstring("h2 ib.state mlx5_3:1: "));
  CHECK(text.find("4: ACTIVE") == text.npos);
  CHECK_THAT(nodes_text(answers, {.all = true}), ContainsSubstring("4: ACTIVE"));
  CHECK(text.find("beside ranks") == text.npos);
}

TEST_CASE("a node with ranks says that less was looked at") {
  const std::string text = nodes_text({Looked({active_finding()}).beside_ranks().of("h1")}, {});
  CHECK_THAT(text, ContainsSubstring("beside ranks"));
  CHECK_THAT(text, ContainsSubstring("were skipped\n1 ok (h1)\n"));
}

TEST_CASE("the exit code is of the worst node: a drained one, then one that is unknown or silent") {
  const HostHealth ok = Looked().of("a");
  const HostHealth gone = no_answer("b", "t", "no route", asked_at);
  const HostHealth drained = Looked().drained_by(down_finding()).of("c");
  CHECK(health_exit({ok, ok}) == HealthExit::healthy);
  CHECK(health_exit({ok, gone}) == HealthExit::unclear);
  CHECK(health_exit({ok, gone, drained}) == HealthExit::drained);
  CHECK(health_exit(std::vector<HostHealth>{}) == HealthExit::unclear);
}

TEST_CASE("programs get each node with what it said, and monitors the node in each line") {
  const auto answers = four();
  const Document document = nodes_document(answers);
  CHECK(document["nodes"][0]["node"] == "h2");
  CHECK(document["nodes"][0]["state"] == "drained");
  CHECK(document["nodes"][0]["host"] == "host-name");
  CHECK(document["nodes"][0]["verdict"]["remedy"] == "drain");
  CHECK(document["nodes"][0]["findings"][0]["host"] == "h2");
  CHECK(document["nodes"][1] == Document::parse(R"({"node": "h10", "target": "cluster",
      "state": "unreachable", "why": "connection refused"})"));
  CHECK(document["nodes"][3]["why"].is_null());
  CHECK(document["summary"] ==
        Document::parse(
            R"({"ok": ["h1"], "drained": ["h2"], "unclear": ["h3"], "unreachable": ["h10"]})"));
  const auto reports = findings_of(answers);
  const PluginAnswer plugin = nagios_answer(reports, HostNames::told);
  CHECK(plugin.exit_code == 2);
  CHECK_THAT(plugin.line, ContainsSubstring("CRITICAL - h2 ib.state mlx5_3:1 1: DOWN"));
  CHECK_THAT(plugin.line, ContainsSubstring("h10 host.agent unknown: connection refused"));
  const std::string metrics = prometheus_text(reports, from_ms(0), HostNames::told);
  CHECK_THAT(metrics, ContainsSubstring("muster_health_check{host=\"h2\",check=\"ib.state\","
                                        "device=\"mlx5_3:1\"} 2\n"));
  CHECK_THAT(metrics, ContainsSubstring("{host=\"h10\",check=\"host.agent\",device=\"\"} 3\n"));
  CHECK_THAT(metrics, ContainsSubstring("duration_seconds{host=\"h1\",check=\"ib.state\"} 0.0002"));
  CHECK_THAT(report_lines(reports), ContainsSubstring("\"host\":\"h10\""));
}

TEST_CASE("no text of a node moves a terminal's cursor") {
  const HealthFinding rude = a_finding("ib.state", "mlx5\x1b[2J", CheckStatus::fail, "\x1b]0;x\a",
                                       {"a\x1b[31mb\nforged: line"});
  std::vector<HostHealth> answers{Looked({rude}).drained_by(rude).of("h1"),
                                  no_answer("h2", "t", "why\x1b[1m\nforged", asked_at)};
  sort_worst_first(answers);
  const std::string text = nodes_text(answers, {.all = true});
  CHECK(text.find('\x1b') == text.npos);
  CHECK(text.find("\nforged") == text.npos);
}

TEST_CASE("a version that one of three nodes has alone is told of it, and drains nobody") {
  std::vector<HostHealth> answers{Looked().of("a"), Looked({}, "5.15").of("b"), Looked().of("c")};
  compare(answers, {});
  REQUIRE(answers[1].findings.size() == 1);
  CHECK(answers[1].findings[0].check == "host.versions");
  CHECK(answers[1].findings[0].host == "b");
  CHECK(answers[1].findings[0].code == MonitorCode::warning);
  CHECK(answers[0].findings[0].code == MonitorCode::ok);
  CHECK(health_exit(answers) == HealthExit::healthy);  // the check observes
  std::vector<HostHealth> enforced{Looked().of("a"), Looked({}, "5.15").of("b"), Looked().of("c")};
  compare(enforced, enforcing_versions());
  CHECK(enforced[1].fitness == NodeFitness::unclear);
  CHECK(enforced[1].why == "host.versions: not as on most nodes");
  CHECK(enforced[0].fitness == NodeFitness::ok);
}

TEST_CASE("without a majority, or asked for other checks, a version is nobody's fault") {
  std::vector<HostHealth> split{Looked({}, "1").of("a"), Looked({}, "2").of("b"),
                                Looked({}, "3").of("c")};
  compare(split, enforcing_versions());
  for (const HostHealth& one : split) {
    REQUIRE(one.findings.size() == 1);
    CHECK(one.findings[0].code == MonitorCode::unknown);
    CHECK(one.fitness == NodeFitness::unclear);
    CHECK(one.why == "every check is unknown");
  }
  HealthProfile profile;
  profile.required = {"host.versions"};
  std::vector<HostHealth> required{Looked({}, "1").of("a"), Looked({}, "2").of("b"),
                                   Looked({}, "3").of("c")};
  compare(required, profile);
  CHECK(required[0].fitness == NodeFitness::unclear);
  std::vector<HostHealth> other{Looked().of("a"), Looked({}, "2").of("b"), Looked().of("c")};
  compare(other, enforcing_versions(), {"ib.*"});
  CHECK(other[1].why == "nothing was checked");
}

TEST_CASE("nodes of other targets and profiles, and silent ones, are not compared") {
  Looked other({}, "5.15");
  other.look.profile = "a100";
  std::vector<HostHealth> answers{Looked().of("a"), Looked().of("b"), other.of("c"),
                                  read_answer("d", "elsewhere", Looked().text(), asked_at),
                                  no_answer("e", "cluster", "gone", asked_at)};
  compare(answers, enforcing_versions());
  for (const HostHealth& one : answers) {
    CHECK(one.findings.at(0).check == "host.agent");
    CHECK(one.findings.size() == 1);
  }
}

TEST_CASE("nodes are meant by name, in brackets, by pattern or by their target") {
  CHECK(chosen("", {"h02"}) == "east: h02");
  CHECK(chosen("", {"h[01-02]", "w1"}) == "east: h01 h02; west: w1");
  CHECK(chosen("", {"h*", "h01"}) == "east: h01 h02 h03");
  CHECK(chosen("", {"h01,gpu1"}) == "east: h01 gpu1");
  CHECK(chosen("west", {}) == "west: h03 w1");
  CHECK(chosen("west", {"h03"}) == "west: h03");
  CHECK(chosen("", {"h04"}) == "there is no node 'h04'; did you mean 'h01'?");
  CHECK(chosen("", {"h[01-04]"}) == "there is no node 'h04'; did you mean 'h01'?");
  CHECK(chosen("", {"x*"}) == "there is no node 'x*'; `muster nodes` lists them");
  CHECK(chosen("", {"lern"}) == "there is no node 'lern'; did you mean `muster health learn`?");
  CHECK(chosen("west", {"h01"}) == "there is no node 'h01'; did you mean 'h03'?");
  CHECK(chosen("wset", {}) == "there is no compute target 'wset'; did you mean 'west'?");
  CHECK(chosen("none", {}) == "there is no compute target 'none'; there are east, west");
  CHECK_THAT(chosen("", {"h[01-"}), ContainsSubstring("brackets do not match"));
  CHECK_THAT(chosen("", {"--help\x1b"}), ContainsSubstring("is not a host name"));
}
