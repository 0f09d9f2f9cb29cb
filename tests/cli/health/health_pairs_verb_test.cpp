// `health pairs` up to its first round: who takes part, over what, and how long that takes.
#include <nlohmann/json.hpp>

#include "cli/client/start.h"
#include "cli/health/cluster/pairs.h"
#include "tests/catch.h"
#include "tests/cli/command_site.h"
#include "tests/cli/fake_controller.h"

using namespace muster;

namespace {

// Nodes that say this of themselves by their names, and can measure nothing.
FakeController::Answer nodes_that_say(const std::map<std::string, NodeReadiness>& nodes,
                                      const NodesAnswer& jobs = {}) {
  return [=](const ToController& request) {
    if (std::holds_alternative<AskVersion>(request)) {
      return encode(FromController(VersionAnswer{own_build_id(), 7, 0}));
    }
    if (std::holds_alternative<AskNodes>(request)) return encode(FromController(jobs));
    std::string bytes;
    std::int64_t place = 0;
    for (const NodeProbe& probe : std::get<MeasureNodes>(request).probes) {
      NodeLooked said{probe.node, ""};
      said.place = place++;
      const bool asks = probe.words == std::vector<std::string>{ready_probe};
      if (!asks) said.error = "it is broken";
      bytes += encode(FromController(said), asks ? text_of(nodes.at(probe.node.value)) : "");
    }
    return bytes;
  };
}

std::map<std::string, NodeReadiness> three_alike(const NodeReadiness& one) {
  std::map<std::string, NodeReadiness> nodes;
  for (const char* name : {"h1", "h2", "h3"}) {
    nodes[name] = one;
    nodes[name].boot_id = name;
  }
  return nodes;
}

std::string announced(const NodeReadiness& each, const std::string& options) {
  const CommandSite site;
  const std::string leaves = site.add("leaves", "h1 a\nh2 a\nh3 a\n");
  FakeController controller(site.home(), FakeController::any_number,
                            nodes_that_say(three_alike(each)));
  const SaidByVerb said = site.type("health pairs h[1-3] --leaves " + leaves + " " + options);
  const std::size_t begin = said.err.find("measures pairs");
  if (begin == said.err.npos) return std::to_string(said.code) + ": " + said.err;
  return said.err.substr(begin, said.err.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("pairs are measured over what all nodes have, which is said with the time it takes") {
  const std::string end = ": about 10s a round; 3 rounds (30s) find one fault, 6 at most";
  const NodeReadiness plain;
  const NodeReadiness with_hca{"", {"mlx5_0"}};
  CHECK(announced(plain, "") == "measures pairs of 3 nodes over TCP" + end);
  CHECK(announced(with_hca, "") == "measures pairs of 3 nodes over InfiniBand" + end);
  CHECK(announced(with_hca, "--tcp") == "measures pairs of 3 nodes over TCP" + end);
  // Former options, which change nothing.
  CHECK(announced(with_hca, "--nccl") == "measures pairs of 3 nodes over InfiniBand" + end);
  CHECK(announced(with_hca, "--no-nccl --tcp") == "measures pairs of 3 nodes over TCP" + end);
  CHECK_THAT(announced(plain, "--time 2s"), ContainsSubstring("about 2.0s a round; 3 rounds (6"));
}

TEST_CASE("a node that is busy or has a job takes no part, and it takes three") {
  const CommandSite site("compute: {lab: {nodes: [\"h[1-5]\"]}}\n");
  auto nodes = three_alike({});
  nodes["h4"].busy = "gpu0 is used by process 4711";
  nodes["h5"] = {};
  NodesAnswer jobs;
  jobs.nodes.resize(2);
  jobs.nodes[0].node = "h5";
  jobs.nodes[0].owner = "kite";
  jobs.nodes[1].node = "h1";
  FakeController controller(site.home(), FakeController::any_number, nodes_that_say(nodes, jobs));
  const SaidByVerb five = site.type("health pairs h[1-5] --idle-only --time 1s");
  CHECK_THAT(five.err, ContainsSubstring("skipped: h4: "));
  CHECK_THAT(five.err, ContainsSubstring("gpu0 is used by process 4711"));
  CHECK_THAT(five.err, ContainsSubstring("skipped: h5: "));
  CHECK_THAT(five.err, ContainsSubstring("kite"));
  CHECK_THAT(five.err, ContainsSubstring("measures pairs of 3 nodes"));
  CHECK(five.code == 3);
  const SaidByVerb two = site.type("health pairs h1 h2 h5 --idle-only");
  CHECK(two.code == 3);
  CHECK_THAT(two.err, ContainsSubstring("2 of 3 nodes can be measured: it takes 3"));
}

TEST_CASE("a question about pairs that makes no sense is refused before anything is asked") {
  const CommandSite site("compute:\n  lab: {nodes: [\"h[1-3]\"]}\n  far: {nodes: [f1]}\n");
  struct Row {
    const char* words;
    const char* says;
  };
  const Row rows[] = {
      {"", "which nodes?"},
      {"h[1-3] --time 0s", "--time: expected whole seconds, 1s to "},
      {"h[1-3] --time 61s", "--time: expected whole seconds"},
      {"h[1-3] --timeout 0s", "--timeout: expected more than 0"},
      {"h[1-3] --port 1023", "--port: expected 1024 to 50000"},
      {"h[1-3] --port 50001", "--port: expected 1024 to 50000"},
      {"h[1-3] --tcp --hca mlx5_0", "--hca queries an InfiniBand fabric"},
      {"h9", "there is no node 'h9'"},
      {"h1 f1", "the nodes are of several compute targets"},
      {"--target local-cluster", "has no address that other nodes could connect to"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.words);
    const SaidByVerb said = site.type(std::string("health pairs ") + row.words);
    CHECK(said.code == 2);
    CHECK(said.out.empty());
    CHECK_THAT(said.err, ContainsSubstring(row.says));
  }
}
