// Where the time of a launch went, from the records that tell it.
#include "scheduler/explain/launch_profile.h"

#include "tests/catch.h"
#include "tests/scheduler/builders.h"

using namespace muster;
using namespace muster::test;

namespace {

const JobId launched_job{"train"};

// One attempt on h01, h02, …, of which the first is reached slowly through its shell.
class Launch {
 public:
  std::vector<Record> records;
  std::vector<Record> links;

  explicit Launch(int nodes) : nodes_(nodes) { place(0, 1000); }

  void place(int attempt, std::int64_t at_ms) {
    attempt_ = AttemptId{attempt};
    AttemptPlaced placed{launched_job, attempt_, {}, "free"};
    for (int i = 1; i <= nodes_; ++i) placed.nodes.push_back(node(i));
    records.push_back({from_ms(at_ms), Decision{placed}});
  }
  void link(int number, std::int64_t at_ms, std::int64_t shell_us) {
    LinkUp up;
    up.node = node(number);
    up.profile = {{"tcp", 1'000}, {"kex", 4'000}, {"shell", shell_us}};
    up.methods = "curve25519-sha256 aes128-ctr hmac-sha2-256";
    links.push_back({from_ms(at_ms), Observation{up}});
    check(number, at_ms + number);
  }
  void check(int number, std::int64_t at_ms) {
    see(at_ms, NodeChecked{launched_job, attempt_, node(number), {}, {}});
  }
  // From the end of the gate to the first output.
  void run(std::int64_t at_ms) {
    records.push_back({from_ms(at_ms + 100), Decision{StagingBegun{launched_job, attempt_}}});
    for (int i = 1; i <= nodes_; ++i)
      see(at_ms + 110, NodeStaged{launched_job, attempt_, node(i), ""});
    records.push_back(
        {from_ms(at_ms + 120), Decision{LaunchBegun{launched_job, attempt_, {}, "fresh"}}});
    for (int i = 1; i <= nodes_; ++i)
      see(at_ms + 150, NodeStarted{launched_job, attempt_, node(i), ""});
    for (int i = 1; i <= nodes_; ++i)
      see(at_ms + 190, FirstOutputSeen{launched_job, attempt_, node(i)});
  }
  LaunchProfile profile() const { return launch_profile(records, links).value(); }

  static NodeId node(int number) { return NodeId{node_name(number)}; }

 private:
  void see(std::int64_t at_ms, Observation what) {
    records.push_back({from_ms(at_ms), std::move(what)});
  }

  int nodes_;
  AttemptId attempt_;
};

Launch a_launch(int nodes) {
  Launch launch(nodes);
  launch.link(1, 4000, 2'400'000);
  for (int i = 2; i <= nodes; ++i) launch.link(i, 1100, 20'000);
  launch.run(4000);
  return launch;
}

std::vector<std::string> names(const NodeLaunch& node) {
  std::vector<std::string> out;
  for (const LaunchPhase& phase : node.phases) out.push_back(phase.name);
  return out;
}

}  // namespace

TEST_CASE("a launch is told by phase: how a node was reached and what it was asked") {
  const LaunchProfile profile = a_launch(2).profile();
  REQUIRE(profile.nodes.size() == 2);
  const NodeLaunch& slow = profile.nodes[0];
  CHECK(slow.node == NodeId{"h01"});
  CHECK(names(slow) ==
        std::vector<std::string>{"tcp", "kex", "shell", "gate", "staging", "exec", "output"});
  CHECK(slow.methods == "curve25519-sha256 aes128-ctr hmac-sha2-256");
  CHECK(slow.took_us("shell") == 2'400'000);
  CHECK(slow.phases[0].begun_us == 3'000'000 - 2'405'000);
  CHECK(slow.took_us("gate") == 1'000);
  CHECK(slow.took_us("staging") == 10'000);
  CHECK(slow.took_us("exec") == 30'000);
  CHECK(slow.took_us("output") == 40'000);
  CHECK(slow.took_us() == 2'405'000 + 81'000);
}

TEST_CASE("the slowest node is named with the phase in which it fell behind, and why that is") {
  const auto slowest = slowest_node(a_launch(5).profile());
  REQUIRE(slowest);
  CHECK(slowest->sentence == "h01 took 2.5 s, of which 2.4 s shell: a start file such as ~/.bashrc "
                             "holds up every login");
}

TEST_CASE("a node that is a little slower than others is not said to have a reason for it") {
  Launch launch(5);
  for (int i = 1; i <= 5; ++i) launch.link(i, 1100, 20'000 + 1'000 * i);
  launch.run(1200);
  CHECK_THAT(slowest_node(launch.profile())->sentence,
             ContainsSubstring("shell; no node is far behind the others"));
}

TEST_CASE("a phase that is long on every node is not what makes one of them slow") {
  Launch launch(5);
  launch.link(1, 4000, 2'400'000);
  for (int i = 2; i <= 5; ++i) launch.link(i, 4000, 2'300'000);
  auto& slow = std::get<LinkUp>(std::get<Observation>(launch.links.front().what));
  slow.profile.insert(slow.profile.begin(), {"resolve", 500'000});
  launch.run(4000);
  CHECK(slowest_node(launch.profile())->phase.name == "resolve");
}

TEST_CASE("a node that kept its connection was not reached anew") {
  Launch launch = a_launch(2);
  launch.place(1, 9000);
  launch.check(1, 9011);
  launch.run(9010);
  const LaunchProfile profile = launch.profile();
  CHECK(profile.attempt == AttemptId{1});
  CHECK(profile.nodes[0].kept_connection);
  CHECK(names(profile.nodes[0]) == std::vector<std::string>{"gate", "staging", "exec", "output"});
  CHECK(profile.nodes[0].took_us("gate") == 11'000);
}

TEST_CASE("a replacement is timed from the moment at which it took the place") {
  Launch launch(1);
  launch.records.push_back(
      {from_ms(1500), Decision{NodeReplaced{launched_job, AttemptId{0}, NodeId{"h01"},
                                            NodeId{"h02"}, "", Unfitness::unhealthy}}});
  launch.records.push_back(
      {from_ms(1540), Observation{NodeChecked{launched_job, AttemptId{0}, NodeId{"h02"}, {}, {}}}});
  const LaunchProfile profile = launch.profile();
  CHECK(profile.nodes[0].node == NodeId{"h02"});
  CHECK(profile.nodes[0].took_us("gate") == 40'000);
}

TEST_CASE("a job that was never placed has no launch") {
  CHECK(!launch_profile({}, {}));
  CHECK(!slowest_node(Launch(2).profile()));
}

TEST_CASE("the quantiles of a phase count the nodes that have it") {
  const LaunchProfile profile = a_launch(5).profile();
  CHECK(quantile_us(profile, "shell", 0.5) == 20'000);
  CHECK(quantile_us(profile, "shell", 1) == 2'400'000);
  CHECK(quantile_us(profile, "ports", 0.5) == 0);
  CHECK(launch_phase_names(profile) ==
        std::vector<std::string>{"tcp", "kex", "shell", "gate", "staging", "exec", "output"});
}
