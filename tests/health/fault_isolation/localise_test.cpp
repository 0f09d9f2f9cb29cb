#include "health/fault_isolation/search.h"

#include <algorithm>
#include <functional>
#include <set>

#include "tests/catch.h"
#include "tests/health/fault_isolation/localise_fabric.h"

using namespace muster;

namespace {

using Kind = FabricFaultKind;

std::vector<std::string> named(const FaultSearch& search) {
  std::vector<std::string> texts;
  for (const FaultVerdict& verdict : search.verdicts()) {
    std::string text(word_of(verdict.kind));
    for (const std::string& name : verdict.names) text += " " + name;
    if (!verdict.rail.empty()) text += " " + verdict.rail;
    if (verdict.no_result) text += " (no result)";
    texts.push_back(text);
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

SearchSettings with_seed(std::uint64_t seed) {
  SearchSettings settings;
  settings.seed = seed;
  return settings;
}

struct Outcome {
  std::vector<std::string> named;
  std::vector<FaultVerdict> verdicts;
  int rounds = 0;
};

Outcome localise(FabricShape shape, const std::vector<FabricFault>& faults, std::uint64_t seed,
                 double noise = 0) {
  ModelFabric fabric(shape, faults, noise, seed);
  FaultSearch search(fabric.nodes(), with_seed(seed));
  run_search(search, fabric);
  return {named(search), search.verdicts(), search.rounds()};
}

using Strings = std::vector<std::string>;

// Nodes "a", "b" … below leaves given by letters: "aab" are two below a and one below b.
std::vector<PairNode> nodes_below(const std::string& leaves) {
  std::vector<PairNode> nodes;
  for (const char leaf : leaves) {
    nodes.push_back({"n" + std::to_string(nodes.size()), std::string(1, leaf), {"mlx5_0"}});
  }
  return nodes;
}

// Each test gets what `bandwidth` says.
int run_with(FaultSearch& search,
             const std::function<std::optional<double>(const PairTest&, int)>& bandwidth) {
  int rounds = 0;
  while (const auto round = search.next_round()) {
    rounds = round->number;
    for (const PairTest& test : round->tests) {
      CHECK(search.add({test, bandwidth(test, round->number)}));
    }
  }
  return rounds;
}

bool has(const PairTest& test, NodeIndex node) {
  return test.a == node || test.b == node;
}

}  // namespace

TEST_CASE("a result is bad below the floor or 5 % below the median, and silence is unknown") {
  const Baseline baseline({{100, 100, 100, 101, 99, 90}}, 97.0, {});
  CHECK(baseline.grade(0, 99.0) == PairGrade::good);
  CHECK(baseline.grade(0, 96.4) == PairGrade::bad);
  CHECK(baseline.grade(0, 97.1) == PairGrade::good);
  CHECK(baseline.grade(0, std::nullopt) == PairGrade::unknown);
  CHECK(Baseline({{100, 100, 100}}, {}, {}).grade(0, 94.9) == PairGrade::bad);
  CHECK(Baseline({{100, 100, 100}}, {}, {}).grade(0, 95.1) == PairGrade::doubtful);
}

TEST_CASE("one bad pair of two neither moves the median nor is noise") {
  const Baseline baseline({{90, 100}}, {}, {});
  CHECK(baseline.median(0) == 100);
  CHECK(baseline.noise() == 0);
}

TEST_CASE("a baseline of nothing calls nothing bad but silence and what is below the floor") {
  const Baseline baseline({{}}, 10.0, {});
  CHECK(baseline.grade(0, 20.0) == PairGrade::good);
  CHECK(baseline.grade(0, 9.0) == PairGrade::bad);
  CHECK(Baseline().grade(3, 1.0) == PairGrade::good);
  CHECK(Baseline().grade(3, std::nullopt) == PairGrade::unknown);
}

TEST_CASE("the first round pairs all nodes below each leaf, the odd one waits") {
  FaultSearch search(nodes_below("aaaaabbbbc"), with_seed(3));
  const auto round = search.next_round();
  REQUIRE(round);
  CHECK(round->tests.size() == 4);
  std::set<NodeIndex> seen;
  const auto nodes = nodes_below("aaaaabbbbc");
  for (const PairTest& test : round->tests) {
    CHECK(seen.insert(test.a).second);
    CHECK(seen.insert(test.b).second);
    CHECK(nodes[test.a].leaf == nodes[test.b].leaf);
    CHECK_FALSE(test.rail);
  }
}

TEST_CASE("the seed alone decides who meets whom") {
  const auto first_round = [](std::uint64_t seed) {
    FaultSearch search(nodes_below("aaaaaaaaaaaa"), with_seed(seed));
    return search.next_round()->tests;
  };
  CHECK(first_round(1) == first_round(1));
  CHECK(first_round(1) != first_round(2));
}

TEST_CASE("a slow node is named in two rounds by two partners, of which none is used twice") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    FaultSearch search(nodes_below("aaaaaaaabbbbbbbb"), with_seed(seed));
    std::set<NodeIndex> partners;
    const int rounds = run_with(search, [&](const PairTest& test, int) {
      if (!has(test, 5)) return 100.0;
      CHECK(partners.insert(test.a == 5 ? test.b : test.a).second);
      return 90.0;
    });
    CHECK(rounds <= 3);
    CHECK(partners.size() == 2);
    CHECK(named(search) == Strings{"node n5"});
    CHECK(search.verdicts().front().evidence.size() == 2);
    CHECK_FALSE(search.verdicts().front().path_possible);
  }
}

TEST_CASE("a round never has a node twice") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    ModelFabric fabric({6, 7, 2},
                       {{Kind::node, 3, 0, 0.8}, {Kind::rail, 9, 1, 0.5}, {Kind::link, 5, 0, 0.7}},
                       0.02, seed);
    FaultSearch search(fabric.nodes(), with_seed(seed));
    while (const auto round = search.next_round()) {
      std::set<std::pair<NodeIndex, std::size_t>> used;
      for (const PairTest& test : round->tests) {
        for (const NodeIndex node : {test.a, test.b}) {
          for (std::size_t rail = 0; rail < 2; ++rail) {
            if (!test.rail || *test.rail == rail) CHECK(used.insert({node, rail}).second);
          }
        }
      }
      for (const PairResult& result : fabric.run(round->tests)) search.add(result);
    }
  }
}

TEST_CASE("two bad nodes that met each other are both named") {
  int met = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    FaultSearch search(nodes_below("aaaaaaaabbbbbbbb"), with_seed(seed));
    run_with(search, [&](const PairTest& test, int round) {
      if (round == 1 && has(test, 1) && has(test, 6)) ++met;
      return has(test, 1) || has(test, 6) ? 90.0 : 100.0;
    });
    INFO(seed);
    CHECK(named(search) == Strings{"node n1", "node n6"});
  }
  CHECK(met > 0);
}

TEST_CASE(
    "a pair that is bad while both are good with others is tried again, then it is the path") {
  for (const bool comes_back : {false, true}) {
    FaultSearch search(nodes_below("aaaaaaaaaaaa"), with_seed(4));
    std::optional<PairTest> bad;
    const int rounds = run_with(search, [&](const PairTest& test, int) {
      if (!bad) {
        bad = test;
        return 90.0;
      }
      return comes_back && test == *bad ? 90.0 : 100.0;
    });
    CHECK(rounds == 3);
    REQUIRE(search.verdicts().size() == 1);
    const FaultVerdict& verdict = search.verdicts().front();
    CHECK(verdict.kind == (comes_back ? FaultKind::path : FaultKind::clean));
  }
}

TEST_CASE("no result is tried once more, and names a node only when it stays silent") {
  for (const bool stays : {false, true}) {
    FaultSearch search(nodes_below("aaaaaaaaaaaa"), with_seed(9));
    run_with(search, [&](const PairTest& test, int round) -> std::optional<double> {
      if (has(test, 7) && (stays || round == 1)) return std::nullopt;
      return 100.0;
    });
    CHECK(named(search) == (stays ? Strings{"node n7 (no result)"} : Strings{"clean"}));
  }
}

TEST_CASE("a test that nobody reports on has no result") {
  FaultSearch search(nodes_below("aaaaaaaaaaaa"), with_seed(9));
  while (const auto round = search.next_round()) {
    for (const PairTest& test : round->tests) {
      if (!has(test, 2)) search.add({test, 100.0});
    }
  }
  CHECK(named(search) == Strings{"node n2 (no result)"});
}

TEST_CASE("a result of another round, of no test, or a second one is refused") {
  FaultSearch search(nodes_below("aaaa"), with_seed(1));
  CHECK_FALSE(search.add({{0, 1, {}}, 100.0}));
  const auto round = search.next_round();
  const PairTest test = round->tests.front();
  CHECK_FALSE(search.add({{test.a, test.b, 0}, 100.0}));
  CHECK_FALSE(search.add({{77, 78, {}}, 100.0}));
  CHECK(search.add({test, 100.0}));
  CHECK_FALSE(search.add({test, 1.0}));
}

TEST_CASE("an odd node that waited is measured twice before it is named") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    FaultSearch search(nodes_below("aaaaaaabbbbbbb"), with_seed(seed));
    int measured = 0;
    const int rounds = run_with(search, [&](const PairTest& test, int) {
      measured += has(test, 0);
      return has(test, 0) ? 90.0 : 100.0;
    });
    CHECK(rounds <= 3);
    CHECK(measured >= 2);
    CHECK(named(search) == Strings{"node n0"});
  }
}

TEST_CASE("where a leaf has no known-good node left one is borrowed, and a path is possible") {
  FaultSearch search(nodes_below("aabbccdd"), with_seed(2));
  const int rounds =
      run_with(search, [](const PairTest& test, int) { return has(test, 3) ? 90.0 : 100.0; });
  CHECK(rounds <= 3);
  CHECK(named(search) == Strings{"node n3"});
  CHECK(search.verdicts().front().path_possible);
}

TEST_CASE("nodes that are alone below their leaves are paired across leaves") {
  FaultSearch search(nodes_below("abcdefgh"), with_seed(2));
  const int rounds =
      run_with(search, [](const PairTest& test, int) { return has(test, 3) ? 80.0 : 100.0; });
  CHECK(rounds <= 3);
  CHECK(named(search) == Strings{"node n3"});
}

TEST_CASE("of three nodes the slow one is named, of two only the pair") {
  FaultSearch three(nodes_below("aaa"), [] {
    SearchSettings settings = with_seed(5);
    settings.floor = 95;
    return settings;
  }());
  run_with(three, [](const PairTest& test, int) { return has(test, 1) ? 90.0 : 100.0; });
  CHECK(named(three) == Strings{"node n1"});

  SearchSettings settings = with_seed(5);
  settings.floor = 95;
  FaultSearch two(nodes_below("aa"), settings);
  run_with(two, [](const PairTest&, int) { return 90.0; });
  REQUIRE(two.verdicts().size() == 1);
  CHECK(two.verdicts().front().kind == FaultKind::path);
}

TEST_CASE("no nodes or one node end at once") {
  FaultSearch none({}, with_seed(1));
  CHECK_FALSE(none.next_round());
  FaultSearch one(nodes_below("a"), with_seed(1));
  CHECK_FALSE(one.next_round());
  CHECK(named(one) == Strings{"clean"});
}

TEST_CASE("a leaf with half of its pairs bad is in trouble, and nobody below it is drained") {
  for (const double factor : {0.9, 0.0}) {
    const Outcome outcome = localise({8, 16, 1}, {{Kind::leaf, 5, 0, factor}}, 1);
    CHECK(outcome.named == Strings{"leaf leaf5"});
    CHECK(outcome.rounds <= 3);
  }
}

TEST_CASE("a small leaf of which all nodes are slow is in trouble itself") {
  const Outcome outcome = localise({16, 4, 1}, {{Kind::leaf, 5, 0, 0.9}}, 1);
  CHECK(outcome.named == Strings{"leaf leaf5"});
}

TEST_CASE("one bad node of a small leaf is no trouble of the leaf") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Outcome outcome = localise({16, 4, 1}, {{Kind::node, 21, 0, 0.9}}, seed);
    CHECK(outcome.named == Strings{"node n21"});
  }
}

TEST_CASE("trouble of most leaves is no leaf's") {
  std::vector<FabricFault> faults;
  for (std::size_t leaf = 0; leaf < 5; ++leaf) faults.push_back({Kind::leaf, leaf, 0, 0});
  const Outcome outcome = localise({8, 16, 1}, faults, 1);
  REQUIRE(outcome.verdicts.size() == 1);
  CHECK(outcome.verdicts.front().kind == FaultKind::infra);
  CHECK(outcome.verdicts.front().names.size() == 5);
}

TEST_CASE("a named node is split by rail") {
  struct Row {
    FabricFault fault;
    std::string named;
  };
  for (const Row& row : {Row{{Kind::rail, 37, 3, 0.9}, "rail n37 mlx5_3"},
                         Row{{Kind::rail, 37, 3, 0}, "rail n37 mlx5_3 (no result)"},
                         Row{{Kind::node, 37, 0, 0.9}, "node n37"},
                         Row{{Kind::node, 37, 0, 0}, "node n37 (no result)"},
                         Row{{Kind::inside_node, 37, 0, 0.8}, "node n37"}}) {
    const Outcome outcome = localise({4, 16, 8}, {row.fault}, 3);
    CHECK(outcome.named == Strings{row.named});
    CHECK(outcome.rounds == 3);
  }
}

TEST_CASE("a rail stands out among those of its node when there is nobody to compare with") {
  std::vector<PairNode> nodes = nodes_below("aaaa");
  for (PairNode& node : nodes) node.rails = {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"};
  FaultSearch search(nodes, with_seed(1));
  run_with(search, [](const PairTest& test, int) {
    if (!test.rail) return has(test, 1) ? 360.0 : 400.0;
    return has(test, 1) && *test.rail == 2 ? 90.0 : 100.0;
  });
  CHECK(named(search) == Strings{"rail n1 mlx5_2"});
}

TEST_CASE("a slow link is a path between two leaves") {
  for (std::size_t link = 0; link < 64; link += 7) {
    const ModelFabric fabric({8, 8, 1}, {}, 0, 1);
    const Outcome outcome = localise({8, 8, 1}, {{Kind::link, link, 0, 0.9}}, link);
    REQUIRE_FALSE(outcome.verdicts.empty());
    for (const FaultVerdict& verdict : outcome.verdicts) {
      CHECK(verdict.kind == FaultKind::path);
      CHECK(verdict.path_possible);
      CHECK(fabric.cross(verdict.names[0], verdict.names[1], link));
    }
    CHECK(outcome.rounds <= 3);
  }
}

TEST_CASE("noise of 2 % names nobody") {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const Outcome outcome = localise({16, 16, 2}, {}, seed, 0.02);
    CHECK(outcome.rounds <= 3);
    for (const FaultVerdict& verdict : outcome.verdicts) {
      INFO(word_of(verdict.kind));
      CHECK((verdict.kind == FaultKind::clean || verdict.kind == FaultKind::doubtful));
    }
  }
}

TEST_CASE("a group whose pairs are all good is for bisection") {
  const Outcome outcome = localise({4, 8, 1}, {}, 1);
  REQUIRE(outcome.verdicts.size() == 1);
  CHECK(outcome.verdicts.front().kind == FaultKind::clean);
  CHECK(outcome.verdicts.front().evidence.front().find("bisect") != std::string::npos);
}
