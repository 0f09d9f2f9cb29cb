#include <algorithm>
#include <random>

#include "tests/catch.h"
#include "tests/launcher/relay/fake_cluster.h"

namespace muster {
namespace {

// Keeps every node connected, as the controller does: a link that ends is asked for again.
class Run {
 public:
  Run(int nodes, int above, int radix) : cluster_(std::make_unique<FakeCluster>(time, nodes)) {
    cluster = cluster_.get();
    launch_.target = "lab";
    launch_.connect.fan_out_above = above;
    launch_.connect.fan_out_radix = radix;
    fan_out = std::make_unique<FanOut>(time, std::move(cluster_),
                                       [this](const std::string& said) { notes.push_back(said); });
  }
  ~Run() {
    links.clear();
    fan_out.reset();
  }

  void start() {
    for (const auto& [id, node] : cluster->nodes) connect(id);
  }
  void connect(const NodeId& id) {
    NodeAddress address;
    address.id = id;
    fan_out->connect(address, launch_, [this, id](ConnectResult result) {
      auto* connected = std::get_if<Connected>(&result);
      if (connected == nullptr) return again(id);
      ways[id] = connected->through;
      came[id] = time.now();
      profiles[id] = connected->profile;
      links[id] = std::move(connected->link);
      links[id]->start({[](std::span<const std::byte>) {},
                        [this, id](const LinkFailure&) {
                          ++losses[id];
                          time.post([this, id] { links.erase(id); });
                          again(id);
                        }});
    });
  }
  void again(const NodeId& id) {
    time.plan(Milliseconds{50}, [this, id] { connect(id); });
  }
  int up() const { return static_cast<int>(links.size()); }
  int directly() const {
    return static_cast<int>(std::count_if(
        links.begin(), links.end(), [this](const auto& each) { return !ways.at(each.first); }));
  }
  int children_of(const NodeId& parent) const {
    return static_cast<int>(std::count_if(links.begin(), links.end(), [&](const auto& each) {
      return ways.at(each.first) == parent;
    }));
  }
  NodeId a_parent() const {  // empty: none
    for (const auto& [id, way] : ways) {
      if (children_of(id) > 0) return id;
    }
    return {};
  }
  int depth(const NodeId& id) const { return ways.at(id) ? depth(*ways.at(id)) + 1 : 1; }

  HandTimers time;
  FakeCluster* cluster = nullptr;
  std::unique_ptr<FanOut> fan_out;
  std::map<NodeId, std::unique_ptr<Link>> links;
  std::map<NodeId, std::optional<NodeId>> ways;
  std::map<NodeId, SteadyTime> came;
  std::map<NodeId, ConnectProfile> profiles;
  std::map<NodeId, int> losses;
  std::vector<std::string> notes;

 private:
  std::unique_ptr<FakeCluster> cluster_;
  AgentLaunch launch_;
};

}  // namespace

TEST_CASE("up to the limit every node is connected directly, and none waits") {
  Run run(16, 16, 4);
  run.start();
  run.time.pass(Milliseconds{150});
  CHECK(run.up() == 16);
  CHECK(run.directly() == 16);
}

TEST_CASE("above the limit as many nodes as the radix are, and the others evenly through them") {
  Run run(20, 16, 4);
  run.start();
  run.time.pass(Milliseconds{2000});
  CHECK(run.up() == 20);
  CHECK(run.directly() == 4);
  for (const auto& [id, way] : run.ways) {
    if (!way) CHECK(run.children_of(id) == 4);
  }
  int direct_tries = 0;
  for (const auto& [id, node] : run.cluster->nodes) direct_tries += node.direct_tries;
  CHECK(direct_tries == 4);
  for (const auto& [id, profile] : run.profiles) {
    const bool has_waited = !profile.empty() && profile.front().phase == "way";
    CHECK(has_waited == run.ways.at(id).has_value());
  }
}

TEST_CASE("a tree grows as deep as it must, the shallowest places first") {
  Run run(14, 3, 2);
  run.start();
  run.time.pass(Milliseconds{4000});
  CHECK(run.up() == 14);
  std::map<int, int> levels;
  for (const auto& [id, link] : run.links) ++levels[run.depth(id)];
  CHECK(levels == std::map<int, int>{{1, 2}, {2, 4}, {3, 8}});
}

TEST_CASE("a node that is off delays nobody but itself") {
  const NodeId off{GENERATE("n1", "n13", "n20")};  // names sort: n1 is among the first, n20 not
  Run run(20, 16, 4);
  run.cluster->nodes.at(off).is_off = true;
  run.start();
  run.time.pass(Milliseconds{6500});
  CHECK(run.up() == 19);
  CHECK(run.links.count(off) == 0);
}

TEST_CASE("nobody waits longer than its patience for a parent that is slow") {
  Run run(20, 16, 4);
  for (const char* slow : {"n1", "n10", "n11", "n12"}) {
    run.cluster->nodes.at(NodeId{slow}).start = Milliseconds{60000};
  }
  run.start();
  run.time.pass(Milliseconds{6000});
  CHECK(run.up() == 16);
}

TEST_CASE("when a node dies those behind it are reached anew at once, through others") {
  Run run(30, 16, 6);
  run.start();
  run.time.pass(Milliseconds{3000});
  REQUIRE(run.up() == 30);
  NodeId parent;
  for (const auto& [id, way] : run.ways) {
    if (!way) parent = id;
  }
  REQUIRE(run.children_of(parent) == 4);
  run.cluster->power_off(parent);
  run.time.pass(Milliseconds{400});
  CHECK(run.up() == 29);
  CHECK(run.children_of(parent) == 0);
  int lost = 0;
  for (const auto& [id, count] : run.losses) lost += count;
  CHECK(lost == 5);
  CHECK(run.notes.empty());
}

TEST_CASE("a node whose agent died takes its place again, beside the relay that stayed") {
  Run run(14, 3, 2);
  run.start();
  run.time.pass(Milliseconds{4000});
  REQUIRE(run.up() == 14);
  NodeId inner;
  for (const auto& [id, way] : run.ways) {
    if (run.depth(id) == 2 && run.children_of(id) == 2) inner = id;
  }
  REQUIRE(!inner.value.empty());
  run.cluster->cut_link(inner);
  run.time.pass(Milliseconds{6000});
  CHECK(run.up() == 14);
  CHECK(run.depth(inner) == 2);
  CHECK(run.losses.size() == 1);
}

TEST_CASE("whatever is lost and when, every node that is on is reached, and not through itself") {
  const auto seed = GENERATE(range(1u, 101u));
  std::mt19937 random(seed);
  const auto below = [&](int limit) { return static_cast<int>(random() % unsigned(limit)); };
  Run run(4 + below(16), 3, 2 + below(2));
  run.start();
  for (int event = 0; event < 30; ++event) {
    run.time.pass(Milliseconds{below(2) == 0 ? below(400) : below(15'000)});
    const NodeId node{"n" + std::to_string(1 + below(static_cast<int>(run.cluster->nodes.size())))};
    switch (below(8)) {
      case 0:
        run.cluster->power_off(node);
        break;
      case 1:
        run.cluster->kill_relays(node);
        break;
      case 2:
        run.cluster->cut_everything();
        break;
      case 3:
        run.cluster->nodes.at(node).is_off = false;
        break;
      default:
        run.cluster->cut_link(node);
    }
    for (const auto& [id, way] : run.ways) CHECK(way != id);
  }
  for (auto& [id, node] : run.cluster->nodes) node.is_off = false;
  run.time.pass(Milliseconds{20'000});
  CHECK(run.up() == static_cast<int>(run.cluster->nodes.size()));
  run.links.clear();
  run.time.pass(Milliseconds{100});
  CHECK(run.cluster->relays() == 0);
}

TEST_CASE("when all is lost at once the nodes are a tree again, not all connected directly") {
  Run run(60, 16, 4);
  run.start();
  run.time.pass(Milliseconds{GENERATE(4000, 90'000)});
  REQUIRE(run.up() == 60);
  REQUIRE(run.directly() == 4);
  run.cluster->cut_everything();
  run.time.pass(Milliseconds{100});
  REQUIRE(run.up() == 0);
  run.time.pass(Milliseconds{6000});
  CHECK(run.up() == 60);
  CHECK(run.directly() < 8);
}

TEST_CASE("relays end with the last link that they carry when nobody wants their nodes") {
  Run run(14, 3, 2);
  run.start();
  run.time.pass(Milliseconds{4000});
  REQUIRE(run.cluster->relays() > 2);
  SECTION("those in front first") {
    std::map<int, std::vector<NodeId>> levels;
    for (const auto& [id, link] : run.links) levels[run.depth(id)].push_back(id);
    for (const auto& [depth, nodes] : levels) {
      for (const NodeId& node : nodes) run.links.erase(node);
      run.time.pass(Milliseconds{100});
    }
  }
  SECTION("all at once") {
    run.links.clear();
  }
  run.time.pass(Milliseconds{100});
  CHECK(run.cluster->relays() == 0);
}

TEST_CASE("whoever's relay was being started when the way to it was lost is not blamed") {
  for (int at = 200; at < 900; at += 20) {
    Run run(14, 3, 2);
    run.start();
    run.time.pass(Milliseconds{at});
    const NodeId parent = run.a_parent();
    if (parent.value.empty()) continue;
    CAPTURE(at, parent.value);
    run.cluster->power_off(parent);
    run.time.pass(Milliseconds{20'000});
    CHECK(run.up() == 13);
    CHECK(run.notes.empty());
  }
}

TEST_CASE("of two questions for a node the newer one counts, and the older one is answered") {
  HandTimers time;
  auto cluster = std::make_unique<FakeCluster>(time, 1);
  const FakeNode& node = cluster->nodes.at(NodeId{"n1"});
  FanOut fan_out(time, std::move(cluster), [](const std::string&) {});
  NodeAddress address;
  address.id = NodeId{"n1"};
  std::vector<bool> answers;
  const auto note = [&](const ConnectResult& result) {
    answers.push_back(std::holds_alternative<Connected>(result));
  };
  fan_out.connect(address, {}, note);
  fan_out.connect(address, {}, note);
  time.pass(Milliseconds{500});
  CHECK(answers == std::vector<bool>{false, true});
  CHECK(node.direct_tries == 1);
}

TEST_CASE("a relay that stands still is given up before its agents count as silent") {
  Run run(20, 16, 4);
  run.start();
  run.time.pass(Milliseconds{3000});
  NodeId parent;
  for (const auto& [id, way] : run.ways) {
    if (!way) parent = id;
  }
  run.cluster->nodes.at(parent).stands_still = true;
  run.time.pass(Milliseconds{9900});
  CHECK(run.up() == 20);
  CHECK(run.children_of(parent) == 0);
}

TEST_CASE("nodes that do not reach each other are connected directly, and that is said once") {
  Run run(20, 16, 4);
  for (auto& [id, node] : run.cluster->nodes) node.is_walled = true;
  run.start();
  run.time.pass(Milliseconds{1500});
  CHECK(run.up() == 20);
  CHECK(run.directly() == 20);
  REQUIRE(run.notes.size() == 2);
  CHECK_THAT(run.notes[0], ContainsSubstring("cannot reach"));
  CHECK_THAT(run.notes[1], ContainsSubstring("target lab: nodes do not reach each other"));
  int from_nodes = 0;
  for (const auto& [id, node] : run.cluster->nodes) from_nodes += node.tries_from_nodes;
  CHECK(from_nodes <= 4);  // one a parent
}

TEST_CASE("a parent that reaches nobody gets no more nodes, the others do") {
  Run run(40, 16, 6);
  run.cluster->nodes.at(NodeId{"n1"}).is_walled = true;
  // The first to try, or not.
  run.cluster->nodes.at(NodeId{"n1"}).start = Milliseconds{GENERATE(1, 300)};
  run.start();
  run.time.pass(Milliseconds{8000});
  CHECK(run.up() == 40);
  CHECK(run.children_of(NodeId{"n1"}) == 0);
  CHECK(run.directly() <= 12);  // of 40: the six, and those that failed through it
  REQUIRE(run.notes.size() == 1);
  CHECK_THAT(run.notes[0], ContainsSubstring("n1 cannot reach"));
}

TEST_CASE("nodes over ssh are all reached directly, however many there are") {
  HandTimers time;
  auto cluster = std::make_unique<FakeCluster>(time, 20);
  const FakeCluster& nodes = *cluster;
  FanOut fan_out(time, std::move(cluster), [](const std::string&) {});
  AgentLaunch launch;
  launch.target = "lab";
  launch.connect.fan_out_above = 3;
  launch.connect.fan_out_radix = 2;
  int connected = 0;
  for (const auto& [id, node] : nodes.nodes) {
    NodeAddress address;
    address.id = id;
    address.transport = TransportKind::ssh;
    fan_out.connect(address, launch, [&](const ConnectResult& result) {
      connected += std::holds_alternative<Connected>(result);
    });
  }
  time.pass(Milliseconds{150});
  CHECK(connected == 20);
  CHECK(nodes.relays() == 0);
}

}  // namespace muster
