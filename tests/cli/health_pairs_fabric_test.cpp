// What measuring pairs takes from the fabric, by tools whose texts are those of a real one.
#include "cli/health_pairs_fabric.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/health/fabric_samples.h"
#include "tests/health/fabric_text.h"

using namespace muster;
using namespace muster::fabric_samples;

namespace {

using Words = std::vector<std::string>;

const std::string slow_link = "leaf2[5]-spine1[2]";

// Tools that say what a test lets them, and how often each was asked.
struct Tools {
  std::map<FabricTool, FileReading> says{
      {FabricTool::discover, said(fabric_text(one_rail, "cables"))},
      {FabricTool::tables, said(fabric_text(one_rail, "tables"))},
      {FabricTool::links, said(fabric_text(one_rail, "links"))},
      {FabricTool::errors, said(fabric_text(one_rail, "no-errors"))}};
  std::map<FabricTool, int> asked;

  AskFabric ask() {
    return [this](FabricTool tool, std::size_t) {
      ++asked[tool];
      return FabricToolAnswer{says.at(tool), {}};
    };
  }
};

std::vector<RailGuids> hosts() {
  std::vector<RailGuids> all;
  for (int i = 1; i <= 16; ++i) all.push_back({"n" + std::to_string(i), {}});
  return all;
}

std::vector<LocaliseNode> nodes_below(const LeafOfNode& leaves) {
  std::vector<LocaliseNode> nodes;
  for (const RailGuids& host : hosts()) {
    nodes.push_back({host.node, leaves.at(host.node), {"mlx5_0"}});
  }
  return nodes;
}

PairsResult with_verdict(LocaliseKind kind, const Words& names) {
  PairsResult result;
  result.median_gb_per_s = 24;
  result.has_verbs = true;
  result.has_routes = true;
  LocaliseVerdict verdict;
  verdict.kind = kind;
  verdict.names = names;
  verdict.evidence = {"n5 - n9 mlx5_0: 19.2 GB/s, 20.0 % below the median"};
  result.verdicts = {verdict};
  return result;
}

// A fabric that was looked at before a measurement.
PairsFabric looked_at(Tools& tools) {
  PairsFabric fabric(tools.ask(), 1, {});
  fabric.look(hosts(), {"mlx5_0"});
  const auto leaves = fabric.leaves();
  REQUIRE(leaves);
  REQUIRE(fabric.routes(nodes_below(*leaves)));
  return fabric;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("leaves are those of the rails' cables, or else of the hosts' names") {
  Tools tools;
  PairsFabric fabric(tools.ask(), 1, {});
  fabric.look(hosts(), {"mlx5_0"});
  CHECK(fabric.leaves()->at("n5") == "leaf2");
  PairsFabric by_name(tools.ask(), 1, {});
  by_name.look({{"n1", {}}, {"elsewhere", {}}}, {"mlx5_0"});
  CHECK(by_name.leaves()->at("n16") == "leaf4");
  CHECK(by_name.routes({{"n1", "leaf1", {"mlx5_0"}}, {"elsewhere", "other", {"mlx5_0"}}})
            .error()
            .message == "the fabric has no port of elsewhere mlx5_0");
  CHECK(tools.asked[FabricTool::tables] == 0);
}

TEST_CASE("tools that are missing, cut off or say rubbish leave no routes, and why") {
  for (const auto& [reading, why] :
       {std::pair(failed("dump_fts is not installed"), "dump_fts is not installed"),
        std::pair(said("rubbish\n"), "not whole: rubbish"),
        std::pair(said(fabric_text(one_rail, "tables").substr(0, 2000)), "not whole"),
        std::pair(said(""), "do not lead")}) {
    Tools tools;
    tools.says[FabricTool::tables] = reading;
    PairsFabric fabric(tools.ask(), 1, {});
    fabric.look(hosts(), {"mlx5_0"});
    const auto routes = fabric.routes(nodes_below(*fabric.leaves()));
    REQUIRE_FALSE(routes);
    CHECK(holds(routes.error().message, why));
    PairsResult result = with_verdict(LocaliseKind::path, {"n1", "n5"});
    fabric.explain(result);
    CHECK(result.verdicts.size() == 1);
  }
  Tools blind;
  blind.says[FabricTool::discover] = failed("ibnetdiscover is not installed");
  PairsFabric fabric(blind.ask(), 1, {});
  fabric.look(hosts(), {"mlx5_0"});
  CHECK(fabric.leaves().error().message == "ibnetdiscover is not installed");
  CHECK(fabric.routes({}).error().message == "ibnetdiscover is not installed");
}

TEST_CASE("a named link is told with both ends, and what the fabric's checks say of it") {
  Tools tools;
  PairsFabric fabric = looked_at(tools);
  tools.says[FabricTool::errors] = said(fabric_text(one_rail, "errors"));
  PairsResult result = with_verdict(LocaliseKind::link, {slow_link});
  fabric.explain(result);
  const std::string text = pairs_text(result, {});
  CHECK(holds(text, "slow: link " + slow_link +
                      "\n  leaf2 0x0000000000200001 port 5, 200 Gb/s to spine1 "
                      "0x0000000000200004 port 2, 200 Gb/s\n"));
  CHECK(holds(text, "  fabric check confirms: fab.errors: leaf2[5]: SymbolErrorCounter +4000"));
  CHECK(holds(text, "  n5 - n9 mlx5_0: 19.2 GB/s"));
  const Document out = pairs_document(result);
  CHECK(out["routes"] == true);
  const Document& link = out["verdicts"][0]["links"][0];
  CHECK(link["name"] == slow_link);
  CHECK(
      link["ends"][0] ==
      Document{{"switch", "leaf2"}, {"guid", "0x0000000000200001"}, {"port", 5}, {"gbps", 200.0}});
  CHECK(link["ends"][1]["port"] == 2);
  CHECK(link["fabric_check"] == "confirms");
  CHECK(pairs_reports(result).front().device == "link " + slow_link);
  CHECK(holds(pairs_reports(result).front().evidence.front(), "leaf2 0x0000000000200001 port 5"));
}

TEST_CASE("a check that says nothing against a link, and one that knows nothing, are told apart") {
  Tools tools;
  PairsFabric fabric = looked_at(tools);
  PairsResult result = with_verdict(LocaliseKind::link, {slow_link});
  fabric.explain(result);
  CHECK(holds(pairs_text(result, {}),
              "fabric check: its width and counters say nothing against it"));
  CHECK(pairs_document(result)["verdicts"][0]["links"][0]["fabric_check"] == "nothing");

  tools.says[FabricTool::links] = said(replaced(
      fabric_text(one_rail, "links"), "\"                         leaf2\"      3    5[  ] ==( 4X",
      "\"                         leaf2\"      3    5[  ] ==( 1X"));
  PairsResult narrow = with_verdict(LocaliseKind::link, {slow_link});
  fabric.explain(narrow);
  CHECK(holds(pairs_text(narrow, {}), "fabric check confirms: fab.links: "));

  tools.says[FabricTool::errors] = failed("no answer");
  tools.says[FabricTool::links] = failed("no answer");
  PairsResult silent = with_verdict(LocaliseKind::link, {slow_link});
  fabric.explain(silent);
  CHECK_FALSE(holds(pairs_text(silent, {}), "fabric check"));
  CHECK(pairs_document(silent)["verdicts"][0]["links"][0]["fabric_check"] == "unknown");
  CHECK(pairs_exit(silent) == HealthExit::drained);
}

TEST_CASE("a named switch is told with its GUID") {
  Tools tools;
  PairsFabric fabric = looked_at(tools);
  PairsResult result = with_verdict(LocaliseKind::fabric_switch, {"spine1"});
  fabric.explain(result);
  CHECK(holds(pairs_text(result, {}), "slow: switch spine1\n  switch spine1 0x0000000000200004\n"));
  CHECK(pairs_document(result)["verdicts"][0]["switches"][0]["guid"] == "0x0000000000200004");
}

TEST_CASE("no link is named when packets go other ways by then, or nobody can tell") {
  for (const bool is_silent : {false, true}) {
    Tools tools;
    PairsFabric fabric = looked_at(tools);
    // To n13 by spine2 instead of spine1.
    tools.says[FabricTool::tables] =
        is_silent
            ? failed("dump_fts gave no answer")
            : said(replaced(fabric_text(one_rail, "tables"), "0x0015 005 \n", "0x0015 006 \n"));
    PairsResult result = with_verdict(LocaliseKind::link, {slow_link});
    fabric.explain(result);
    CHECK(result.verdicts.empty());
    CHECK(pairs_exit(result) == HealthExit::unclear);
    CHECK(holds(pairs_text(result, {}), "unclear: a link was slow: "));
    CHECK(holds(pairs_text(result, {}),
              is_silent ? "dump_fts gave no answer" : "packets went other ways"));
    CHECK(pairs_document(result)["state"] == "unclear");
  }
}

TEST_CASE("nothing more is asked when no link is named") {
  Tools tools;
  PairsFabric fabric = looked_at(tools);
  PairsResult result = with_verdict(LocaliseKind::node, {"n3"});
  fabric.explain(result);
  CHECK(tools.asked[FabricTool::discover] == 1);
  CHECK(tools.asked[FabricTool::tables] == 1);
  CHECK(tools.asked[FabricTool::errors] == 1);
  CHECK(tools.asked[FabricTool::links] == 0);
}
