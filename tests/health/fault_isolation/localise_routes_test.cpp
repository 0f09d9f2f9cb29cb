// Pairs over fabrics whose cables and tables are those of a subnet manager: which link is slow.
#include <algorithm>
#include <random>
#include <set>

#include "health/fabric/readers.h"
#include "health/fault_isolation/pair.h"
#include "health/fault_isolation/search.h"
#include "tests/catch.h"
#include "tests/health/fabric_samples.h"
#include "tests/health/fabric_text.h"

using namespace muster;
using namespace muster::fabric_samples;

namespace {

using Words = std::vector<std::string>;
constexpr double line_gb_per_s = 24;

Fabric cables_of(const std::string& fabric) {
  return read_ibnetdiscover(said(fabric_text(fabric, "cables")));
}
ForwardingTables tables_of(const std::string& fabric) {
  return read_dump_fts(said(fabric_text(fabric, "tables")));
}

std::vector<RailGuids> hosts(std::size_t count = 16) {
  std::vector<RailGuids> all;
  for (std::size_t i = 1; i <= count; ++i) all.push_back({"n" + std::to_string(i), {}});
  return all;
}

// The nodes of a fabric, what is known of their ways, and what pairs of them measure: packets are
// followed from name to name, and pairs that share a link in one direction share its bandwidth.
class RoutedNodes {
 public:
  RoutedNodes(const std::string& name, const Words& rails)
      : fabrics{cables_of(name)}, tables_(tables_of(name)) {
    const auto found = rail_ports(hosts(), rails, fabrics);
    REQUIRE(found);
    ports = *found;
    const auto leaves = leaves_by_cabling(ports, fabrics);
    REQUIRE(leaves);
    for (std::size_t i = 0; i < leaves->size(); ++i) {
      nodes.push_back({hosts()[i].node, (*leaves)[i], rails});
    }
    const auto known = routes_between(nodes, ports, fabrics, {tables_});
    REQUIRE(known);
    routes = *known;
  }

  std::vector<LocaliseVerdict> localised(std::uint64_t seed) {
    random_.seed(seed);
    LocaliseSettings settings;
    settings.seed = seed;
    Localisation localisation(nodes, routes.routes, settings);
    while (const auto round = localisation.next_round()) {
      load_.clear();
      for (const PairTest& test : round->tests) {
        for (const std::string& one : directions(test)) ++load_[one];
      }
      for (const auto& [direction, pairs] : load_) most_at_once = std::max(most_at_once, pairs);
      for (const PairTest& test : round->tests) localisation.add({test, measured(test)});
    }
    return localisation.verdicts();
  }

  std::map<std::string, double> left_of_link;  // by name
  std::map<std::string, double> left_of_node;
  double noise = 0;
  int most_at_once = 0;                // pairs in one direction of a link
  std::map<std::string, double> best;  // of pairs across, by link: what the fastest was
  std::vector<Fabric> fabrics;
  RailPorts ports;
  std::vector<LocaliseNode> nodes;
  NodeRoutes routes;

 private:
  // "leaf1[5]-spine1[1]", as packets go.
  void add_way(NodeIndex from, NodeIndex to, std::size_t rail, std::set<std::string>& found) const {
    const Fabric& fabric = fabrics.front();
    const FabricEnd& receiver = ports.ports[to][rail];
    const auto lid = static_cast<std::size_t>(fabric.lids.at(receiver.guid));
    FabricEnd at = *find_port(fabric, ports.ports[from][rail])->peer;
    while (true) {
      const FabricEnd out{at.guid, tables_.out_ports.at(at.guid).at(lid)};
      at = *find_port(fabric, out)->peer;
      if (at == receiver) return;
      found.insert(text_of(fabric, out) + "-" + text_of(fabric, at));
    }
  }
  std::set<std::string> directions(const PairTest& test) const {
    std::set<std::string> found;
    for (std::size_t rail = 0; rail < nodes.front().rails.size(); ++rail) {
      if (test.rail && *test.rail != rail) continue;
      add_way(test.a, test.b, rail, found);
      add_way(test.b, test.a, rail, found);
    }
    return found;
  }
  // The name of the link, whichever way.
  static std::string link_of(const std::string& direction) {
    const std::size_t line = direction.find('-');
    const std::string from = direction.substr(0, line);
    const std::string to = direction.substr(line + 1);
    return std::min(from, to) + "-" + std::max(from, to);
  }
  double measured(const PairTest& test) {
    double left = 1;
    for (const NodeIndex node : {test.a, test.b}) {
      const auto slow = left_of_node.find(nodes[node].name);
      if (slow != left_of_node.end()) left = std::min(left, slow->second);
    }
    for (const std::string& direction : directions(test)) {
      const auto slow = left_of_link.find(link_of(direction));
      const double link = slow == left_of_link.end() ? 1 : slow->second;
      left = std::min(left, link / load_.at(direction));
    }
    // The mean of three is near enough to what noise is like.
    double sum = 0;
    for (int i = 0; i < 3; ++i) sum += static_cast<double>(random_() % 2001) / 1000.0 - 1;
    const double result = line_gb_per_s * left * (1 + noise * sum);
    for (const std::string& direction : directions(test)) {
      double& fastest = best[link_of(direction)];
      fastest = std::max(fastest, result);
    }
    return result;
  }

  ForwardingTables tables_;
  std::map<std::string, int> load_;
  std::mt19937_64 random_;
};

Words names_of(const std::vector<LocaliseVerdict>& verdicts, LocaliseKind kind) {
  Words names;
  for (const LocaliseVerdict& verdict : verdicts) {
    if (verdict.kind == kind) names.insert(names.end(), verdict.names.begin(), verdict.names.end());
  }
  return names;
}

std::string error_of(const Result<NodeRoutes>& routes) {
  return routes ? "" : routes.error().message;
}

}  // namespace

TEST_CASE("routes between nodes are the links that their packets take, with both ends") {
  const RoutedNodes fabric(one_rail, {"mlx5_0"});
  const NodeRoutes& routes = fabric.routes;
  REQUIRE(routes.routes.links.size() == 16);
  CHECK_FALSE(routes.routes.rails_share_links);
  CHECK(fabric.nodes[0].leaf == "leaf1");
  CHECK(fabric.nodes[15].leaf == "leaf4");
  std::vector<LinkHop> hops;
  routes.routes.hops(0, 12, 0, hops);
  REQUIRE(hops.size() == 2);
  CHECK(routes.routes.links[hops[0].link].name == "leaf1[5]-spine1[1]");
  CHECK(hops[0].from_a);
  CHECK(routes.routes.links[hops[1].link].name == "leaf4[5]-spine1[4]");
  CHECK_FALSE(hops[1].from_a);
  CHECK(routes.cables[hops[1].link] == FabricLink{{0x200003, 5}, {0x200004, 4}});
  CHECK(routes.routes.links[hops[1].link].switch_b == "spine1");
  CHECK(routes.switches.at("spine1") == 0x200004);
  hops.clear();
  routes.routes.hops(0, 1, 0, hops);
  routes.routes.hops(0, 12, 7, hops);  // no such rail
  CHECK(hops.empty());
}

TEST_CASE("a slow link between switches is named by its two ends, whichever it is") {
  RoutedNodes fabric(one_rail, {"mlx5_0"});
  for (const SwitchLink& link : fabric.routes.routes.links) {
    CAPTURE(link.name);
    fabric.left_of_link = {{link.name, 0.8}};
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const auto verdicts = fabric.localised(seed);
      REQUIRE(verdicts.size() == 1);
      CHECK(verdicts.front().kind == LocaliseKind::link);
      CHECK(verdicts.front().names == Words{link.name});
      CHECK_FALSE(verdicts.front().evidence.empty());
    }
  }
  CHECK(fabric.most_at_once == 1);
}

TEST_CASE("a slow node below a leaf is named, and no link with it") {
  RoutedNodes fabric(one_rail, {"mlx5_0"});
  fabric.left_of_node = {{"n6", 0.7}};
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const auto verdicts = fabric.localised(seed);
    CHECK(names_of(verdicts, LocaliseKind::node) == Words{"n6"});
    CHECK(verdicts.size() == 1);
  }
}

TEST_CASE("a link that was in a good pair is never named, and a good one hardly ever") {
  std::size_t wrong = 0;
  for (const auto& [name, rails] :
       {std::pair(one_rail, Words{"mlx5_0"}), std::pair(two_rails, Words{"mlx5_0", "mlx5_1"})}) {
    RoutedNodes fabric(name, rails);
    const auto& links = fabric.routes.routes.links;
    fabric.noise = 0.01;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      std::mt19937_64 random(seed);
      fabric.left_of_link.clear();
      fabric.left_of_node.clear();
      // From none to three slow links, and sometimes a slow node.
      for (std::size_t i = 0; i < seed % 4; ++i) {
        fabric.left_of_link[links[random() % links.size()].name] =
            0.5 + 0.1 * static_cast<double>(random() % 5);
      }
      if (seed % 5 == 0) fabric.left_of_node["n" + std::to_string(1 + random() % 16)] = 0.6;
      fabric.best.clear();
      for (const std::string& link : names_of(fabric.localised(seed), LocaliseKind::link)) {
        CAPTURE(name, seed, link);
        CHECK(fabric.best.at(link) < 0.97 * line_gb_per_s);
        wrong += !fabric.left_of_link.contains(link);
      }
    }
    CHECK(fabric.most_at_once == 1);
  }
  CHECK(wrong <= 2);
}

TEST_CASE("rails that share links are not measured at the same time over one of them") {
  RoutedNodes fabric(two_rails, {"mlx5_0", "mlx5_1"});
  CHECK(fabric.routes.routes.rails_share_links);
  CHECK(fabric.nodes[0].leaf == "leaf1");
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const auto verdicts = fabric.localised(seed);
    REQUIRE(verdicts.size() == 1);
    CHECK(verdicts.front().kind == LocaliseKind::clean);
  }
  const std::string slow = fabric.routes.routes.links[5].name;
  fabric.left_of_link = {{slow, 0.7}};
  int named = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const Words links = names_of(fabric.localised(seed), LocaliseKind::link);
    named += links == Words{slow};
    CHECK(links.size() <= 2);
  }
  CHECK(named >= 6);
  CHECK(fabric.most_at_once == 1);
  // Had nobody seen that they do, a pair would be in its own way.
  fabric.routes.routes.rails_share_links = false;
  fabric.localised(1);
  CHECK(fabric.most_at_once == 2);
}

TEST_CASE("the port of a rail is what the node says, else what its description says") {
  const std::vector<Fabric> fabrics{cables_of(one_rail)};
  auto nodes = hosts(2);
  const auto by_name = rail_ports(nodes, {"mlx5_0"}, fabrics);
  REQUIRE(by_name);
  CHECK(by_name->ports[0][0] == FabricEnd{0x100001, 1});
  CHECK(rail_ports(nodes, {"mlx5_0:1"}, fabrics)->ports == by_name->ports);
  CHECK(rail_ports(nodes, {"mlx5_0:2"}, fabrics).error().message ==
        "the fabric has no port of n1 mlx5_0:2");
  CHECK_FALSE(rail_ports(nodes, {"mlx5_0:x"}, fabrics));

  // A name that the fabric does not know, and a GUID that belongs to another name.
  nodes[0] = {"head", {{"mlx5_0", by_name->ports[1][0].guid}}};
  nodes[1] = {"n2", {{"mlx5_0", 0x100001}}};
  const auto by_guid = rail_ports(nodes, {"mlx5_0"}, fabrics);
  REQUIRE(by_guid);
  CHECK(by_guid->ports[0] == by_name->ports[1]);
  CHECK(by_guid->ports[1] == by_name->ports[0]);
  nodes[1].of_rail["mlx5_0"] = 0x77;
  CHECK(rail_ports(nodes, {"mlx5_0"}, fabrics).error().message ==
        "the fabric has no port of n2 mlx5_0");
  nodes[1].of_rail["mlx5_0"] = 0x200000;  // a switch, which is below none
  const auto of_switch = rail_ports(nodes, {"mlx5_0"}, fabrics);
  if (of_switch) {
    CHECK_FALSE(routes_between({{"head", "leaf1", {"mlx5_0"}}, {"n2", "leaf2", {"mlx5_0"}}},
                               *of_switch, fabrics, {tables_of(one_rail)}));
  }

  // Two hosts that call themselves the same.
  const std::vector<Fabric> twins{
      read_ibnetdiscover(said(replaced(fabric_text(one_rail, "cables"), "'n3 mlx5", "'n1 mlx5")))};
  CHECK_FALSE(rail_ports(hosts(2), {"mlx5_0"}, twins));
}

TEST_CASE("rails in fabrics of their own have the ways of each") {
  std::string cables = fabric_text(one_rail, "cables");
  std::string tables = fabric_text(one_rail, "tables");
  for (std::string* text : {&cables, &tables}) {
    *text = replaced(replaced(*text, "0x00000000002", "0x00000000012"), "mlx5_0", "mlx5_1");
    *text = replaced(*text, "0x00000000001000", "0x00000000011000");
  }
  const std::vector<Fabric> fabrics{cables_of(one_rail), read_ibnetdiscover(said(cables))};
  const auto ports = rail_ports(hosts(), {"mlx5_0", "mlx5_1"}, fabrics);
  REQUIRE(ports);
  CHECK(ports->fabric_of_rail == std::vector<std::size_t>{0, 1});
  const auto leaves = leaves_by_cabling(*ports, fabrics);
  REQUIRE(leaves);
  // Switches of the same name are told apart.
  CHECK(leaves->front() == "leaf1 0x0000000000200000+leaf1 0x0000000001200000");
  std::vector<LocaliseNode> nodes;
  for (std::size_t i = 0; i < 16; ++i) {
    nodes.push_back({hosts()[i].node, (*leaves)[i], {"mlx5_0", "mlx5_1"}});
  }
  const auto routes =
      routes_between(nodes, *ports, fabrics, {tables_of(one_rail), read_dump_fts(said(tables))});
  CHECK(error_of(routes).empty());
  REQUIRE(routes);
  CHECK(routes->routes.links.size() == 32);
  CHECK_FALSE(routes->routes.rails_share_links);
  CHECK_FALSE(rail_ports(hosts(), {"mlx5_0", "mlx5_1"}, {fabrics[0]}));
}

TEST_CASE("without the whole of cables and tables there are no routes, and it says why") {
  const RoutedNodes good(one_rail, {"mlx5_0"});
  const auto with = [&](const std::string& cables, const FileReading& tables) {
    return error_of(routes_between(good.nodes, good.ports, {read_ibnetdiscover(said(cables))},
                                   {read_dump_fts(tables)}));
  };
  const std::string cables = fabric_text(one_rail, "cables");
  const std::string tables = fabric_text(one_rail, "tables");
  CHECK(with(cables, said(tables)).empty());
  CHECK(with(cables, failed("dump_fts is not installed")) == "dump_fts is not installed");
  CHECK_THAT(with(cables, said(tables.substr(0, 1000))), ContainsSubstring("not whole"));
  CHECK_THAT(with(cables.substr(0, cables.size() - 20), said(tables)),
             ContainsSubstring("not whole"));
  CHECK_THAT(with(cables, said("")), ContainsSubstring("do not lead from"));
  CHECK_THAT(with(cables, said("rubbish\n")), ContainsSubstring("not whole: rubbish"));
  // n16 was moved meanwhile.
  CHECK_FALSE(with(without(cables, "n16 mlx5"), said(tables)).empty());
  // The circle of a switch that sends back what it gets.
  const std::string circle = replaced(tables, "0x0015 004 \n", "0x0015 001 \n");
  CHECK_THAT(with(cables, said(circle)), ContainsSubstring("do not lead from"));
}

TEST_CASE("leaves that are said to be one and are two leave no routes") {
  const RoutedNodes good(one_rail, {"mlx5_0"});
  std::vector<LocaliseNode> nodes = good.nodes;
  for (LocaliseNode& node : nodes) node.leaf = node.leaf == "leaf4" ? "row2" : "row1";
  CHECK_THAT(error_of(routes_between(nodes, good.ports, good.fabrics, {tables_of(one_rail)})),
             ContainsSubstring("below two switches"));
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].leaf = "own" + std::to_string(i);
  CHECK(error_of(routes_between(nodes, good.ports, good.fabrics, {tables_of(one_rail)})).empty());
}

TEST_CASE("other ways of the same nodes have another digest, and other addresses have not") {
  const RoutedNodes good(one_rail, {"mlx5_0"});
  const auto digest = [&](const ForwardingTables& tables) {
    const auto routes = routes_between(good.nodes, good.ports, good.fabrics, {tables});
    return routes ? routes->digest : 0;
  };
  ForwardingTables tables = tables_of(one_rail);
  CHECK(digest(tables) == good.routes.digest);
  tables.out_ports.at(0x200000).at(2) = 8;  // to a switch itself
  CHECK(digest(tables) == good.routes.digest);
  tables.out_ports.at(0x200000).at(0x15) = 8;  // n13 by spine4
  CHECK(digest(tables) != 0);
  CHECK(digest(tables) != good.routes.digest);
}
