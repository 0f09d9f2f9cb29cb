// The breaker of health checks: how many nodes of a target they may drain, and faults that nodes
// share.
#include "scheduler/node/fault_drain.h"

#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "tests/catch.h"
#include "tests/scheduler/bench.h"
#include "tests/sim/model/replay.h"

using namespace muster;
using namespace muster::test;

namespace {

NodeFault a_fault(const std::string& check, Time since) {
  NodeFault fault;
  fault.id = check;
  fault.check = check;
  fault.since = since;
  fault.what = check + " fails";
  return fault;
}

NodeFault a_stall(Time since) {
  NodeFault fault = a_fault("host.mount_stall", since);
  fault.device = "/data";
  fault.shared_cause = true;
  return fault;
}

void stall(Bench& bench, int first, int last) {
  for (int number = first; number <= last; ++number)
    bench.report_faults(number, {a_stall(bench.now)});
}

bool is_drained(const Bench& bench, int number) {
  const auto node = bench.state.nodes.find(NodeId{node_name(number)});
  return node != bench.state.nodes.end() && node->second.fault_drain.has_value();
}

int drained(const Bench& bench) {
  int count = 0;
  for (const auto& [id, node] : bench.state.nodes) count += node.fault_drain.has_value();
  return count;
}

// Nodes on which a check fails at once, one after the other.
int drained_of(Bench& bench, int first, int last) {
  for (int number = first; number <= last; ++number) {
    bench.report_faults(number, {a_fault("ib.phys", bench.now)});
  }
  return drained(bench);
}

JobBuilder a_job_with(BreakerProfile breaker, int nodes) {
  JobBuilder job = a_job();
  job.on_nodes(1).of_cluster(nodes);
  job.target().health.emplace().breaker = breaker;
  return job;
}

// Of eighty nodes, h11 to h90.
JobBuilder a_farm_job() {
  JobBuilder job = a_job("two");
  job.on_nodes(1);
  job.target() = ComputeTarget{};
  job.target().name = "farm";
  for (int number = 11; number <= 90; ++number) {
    job.target().nodes.emplace_back().id = NodeId{node_name(number)};
  }
  return job;
}

constexpr Milliseconds a_moment{1};

}  // namespace

TEST_CASE("a check drains the larger of 2 and 5 % of the nodes, where no profile says otherwise") {
  struct Row {
    int nodes;
    int drained;
  };
  for (const Row& row : {Row{1, 1}, Row{3, 2}, Row{40, 2}, Row{59, 2}, Row{60, 3}, Row{200, 10}}) {
    INFO(row.nodes);
    Bench bench(a_job().on_nodes(1).of_cluster(row.nodes), 0);
    CHECK(drained_of(bench, 1, row.nodes) == row.drained);
    CHECK(bench.count<BreakerOpened>() == (row.nodes > row.drained ? 1 : 0));
  }
}

TEST_CASE("how many are too many says the profile of the target") {
  struct Row {
    BreakerProfile breaker;
    int drained;
  };
  for (const Row& row : {Row{{1, 0, 600}, 1}, Row{{0, 5, 600}, 2}, Row{{3, 5, 600}, 3},
                         Row{{0, 50, 600}, 20}, Row{{0, 0, 600}, 0}, Row{{-1, -5, -600}, 0}}) {
    INFO(row.breaker.min_nodes << " nodes, " << row.breaker.fleet_pct << " %");
    Bench bench(a_job_with(row.breaker, 40), 0);
    CHECK(drained_of(bench, 1, 40) == row.drained);
  }
}

TEST_CASE("the window is that of the profile, and what fails again after it counts anew") {
  Bench bench(a_job_with({1, 0, 60}, 10), 0);
  CHECK(drained_of(bench, 1, 1) == 1);
  bench.pass(Seconds{61});
  CHECK(drained_of(bench, 2, 2) == 2);
  CHECK(drained_of(bench, 3, 3) == 2);
  CHECK(bench.the<BreakerOpened>().window == Seconds{60});
  CHECK(bench.last<BreakerOpened>()->reason ==
        "h03 would be drained too (ib.phys fails): more than 1 node of lab failing ib.phys within "
        "1 min look like one fault of network, storage or power");
}

// A fault that nodes may share is acted on minutes after it was believed.
TEST_CASE(
    "what an open breaker shows to be in vain is what it counted, to the edge of its window") {
  const Milliseconds window = 2 * shared_cause_settles;
  Bench bench(a_job_with({1, 0, static_cast<int>(window / Seconds{1})}, 10), 0);
  const auto boards = [&] {
    std::string all;
    for (const RemedyTaken& taken : bench.state.remedies) all += taken.node.value + " ";
    return all;
  };
  const Time believed = bench.now;
  stall(bench, 1, 1);
  bench.pass(shared_cause_settles);
  REQUIRE(is_drained(bench, 1));
  SECTION("drained within it, for a fault from before it") {
    bench.pass(window - shared_cause_settles - a_moment);
    stall(bench, 2, 2);
    bench.pass(shared_cause_settles);
    REQUIRE(bench.last<BreakerOpened>());
    CHECK(bench.now - window > believed);
    CHECK(boards() == "");
  }
  SECTION("drained as it began") {
    bench.pass(window - shared_cause_settles);
    stall(bench, 2, 2);
    bench.pass(shared_cause_settles);
    CHECK(!bench.last<BreakerOpened>());
    CHECK(boards() == "h01 h02 ");
    stall(bench, 3, 3);
    bench.pass(shared_cause_settles);
    REQUIRE(bench.last<BreakerOpened>());
    CHECK(boards() == "h01 ");
  }
  CHECK(replay(bench.journal).disagreements.empty());
}

TEST_CASE("a node counts once, and another check has a count of its own") {
  Bench bench(a_job().on_nodes(1).of_cluster(20), 0);
  NodeFault first = a_fault("ib.phys", bench.now);
  NodeFault second = first;
  second.id = "ib.phys on another port";
  second.stops_job = true;
  bench.report_faults(1, {first});
  bench.report_faults(1, {first, second});
  CHECK(drained_of(bench, 1, 2) == 2);
  bench.report_faults(3, {a_fault("gpu.count", bench.now)});
  CHECK(is_drained(bench, 3));
  CHECK(bench.count<BreakerOpened>() == 0);
}

TEST_CASE("the fleet is the target's: what happens in another one opens nothing") {
  Bench bench(a_job("one").on_nodes(1).of_cluster(4), 0);
  bench.submit(a_farm_job());
  // 5 % of all 84 would be 4.
  CHECK(drained_of(bench, 1, 2) == 2);
  CHECK(drained_of(bench, 11, 14) == 6);
  CHECK(bench.count<BreakerOpened>() == 0);
  CHECK(drained_of(bench, 3, 3) == 6);
  CHECK_THAT(bench.the<BreakerOpened>().reason, ContainsSubstring("more than 2 nodes of lab"));
}

TEST_CASE("a check that drains no more at one target drains at another") {
  Bench bench(a_job("one").on_nodes(1).of_cluster(4), 0);
  bench.submit(a_farm_job());
  NodeFault on_farm = a_fault("ib.phys", bench.now);
  on_farm.serial = "165";
  bench.report_faults(11, {on_farm});
  REQUIRE(drained_of(bench, 1, 4) == 3);
  CHECK(bench.the<BreakerOpened>().target == "ib.phys@lab");
  CHECK(checks_withheld(bench.state, "lab") == std::vector<std::string>{"ib.phys"});
  CHECK(checks_withheld(bench.state, "farm").empty());
  // Of what was requested in vain the other target's nodes know nothing.
  REQUIRE(bench.state.remedies.size() == 1);
  CHECK(bench.state.remedies.front().serial == "165");
  bench.report_faults(12, {a_fault("ib.phys", bench.now)});
  CHECK(is_drained(bench, 12));
  CHECK_FALSE(is_drained(bench, 3));
  SECTION("and has a breaker of its own there") {
    CHECK(drained_of(bench, 13, 15) == 6);  // 5 % of 80
    CHECK(bench.last<BreakerOpened>()->target == "ib.phys@farm");
    CHECK(bench.count<BreakerOpened>() == 2);
    bench.pass(Seconds{700});
    SECTION("that is armed by itself") {
      bench.observe(BreakerReset{"ib.phys@farm"});
      bench.pass(Seconds{1});
      CHECK(drained_of(bench, 16, 16) == 7);
      CHECK(drained_of(bench, 4, 4) == 7);
      CHECK(checks_withheld(bench.state, "lab") == std::vector<std::string>{"ib.phys"});
    }
    SECTION("or with all of the check's") {
      bench.observe(BreakerReset{"ib.phys"});
      bench.pass(Seconds{1});
      CHECK(drained_of(bench, 16, 16) == 7);
      CHECK(drained_of(bench, 4, 4) == 8);
    }
  }
  SECTION("of a node that is in both it drains none") {
    JobBuilder both = a_job("both");
    both.on_nodes(1);
    both.target().name = "both";
    both.target().nodes.clear();
    both.target().nodes.emplace_back().id = NodeId{node_name(4)};
    bench.submit(both);
    bench.report_faults(4, {a_fault("ib.phys", bench.now)});
    CHECK_FALSE(is_drained(bench, 4));
    // Nor does it keep jobs of either away from it.
    CHECK(checks_withheld(bench.state, "both").empty());
    const std::vector<std::string> withheld{"ib.phys"};
    CHECK(checks_withheld_on(bench.state, NodeId{node_name(4)}) == withheld);
    CHECK(checks_withheld_on(bench.state, NodeId{node_name(12)}).empty());
  }
  SECTION("what was found where it is armed again is forgiven there alone") {
    const NodeFault old = a_fault("ib.phys", bench.now);
    bench.observe(BreakerReset{"ib.phys@lab"});
    CHECK(is_rearmed_since(bench.state, NodeId{node_name(3)}, old));
    CHECK_FALSE(is_rearmed_since(bench.state, NodeId{node_name(12)}, old));
    CHECK_FALSE(is_rearmed_since(bench.state, NodeId{"unknown"}, old));
  }
  CHECK(replay(bench.journal).disagreements.empty());
  bench.rebuilt();
}

TEST_CASE("a breaker of a journal from before there was one for each target is that of all") {
  Bench bench(a_job("one").on_nodes(1).of_cluster(4), 0);
  bench.submit(a_farm_job());
  CHECK(drained_of(bench, 1, 1) == 1);
  bench.report_faults(11, {a_fault("ib.phys", bench.now)});
  REQUIRE(bench.state.remedies.size() == 2);
  apply(bench.state, {bench.now, Decision{BreakerOpened{"ib.phys", "why", true, Seconds{600}}}});
  CHECK(bench.state.remedies.empty());
  bench.report_faults(2, {a_fault("ib.phys", bench.now)});
  bench.report_faults(12, {a_fault("ib.phys", bench.now)});
  CHECK(drained(bench) == 2);
  for (const char* target : {"lab", "farm", ""}) {
    CHECK(checks_withheld(bench.state, target) == std::vector<std::string>{"ib.phys"});
  }
  SECTION("which is armed by its name alone") {
    bench.observe(BreakerReset{"ib.phys@lab"});
    CHECK(checks_withheld(bench.state, "lab").size() == 1);
    bench.observe(BreakerReset{"ib.phys"});
    CHECK(checks_withheld(bench.state, "lab").empty());
    bench.pass(Seconds{1});
    CHECK(drained_of(bench, 3, 3) == 3);
    bench.report_faults(13, {a_fault("ib.phys", bench.now)});
    CHECK(is_drained(bench, 13));
  }
}

TEST_CASE("names of breakers") {
  CHECK(breaker_name("ib.phys", "lab") == "ib.phys@lab");
  CHECK(breaker_name("ib.phys", "") == "ib.phys@");
  CHECK(check_of_breaker("ib.phys@a@b") == "ib.phys");
  CHECK(check_of_breaker("ib.phys") == "ib.phys");
  CHECK(check_of_breaker("") == "");
  CHECK(names_breaker("ib.phys", "ib.phys@lab"));
  CHECK(names_breaker("ib.phys", "ib.phys"));
  CHECK_FALSE(names_breaker("ib.phys@lab", "ib.phys"));
  CHECK_FALSE(names_breaker("ib.phy", "ib.phys@lab"));
  CHECK_FALSE(names_breaker("ib.phys@la", "ib.phys@lab"));
  CHECK(is_breaker_of("ib.phys@a@b", {"a@b", "c"}));
  CHECK_FALSE(is_breaker_of("ib.phys@a", {"a@b", "c"}));
  CHECK(is_breaker_of("ib.phys@", {}));
  CHECK_FALSE(is_breaker_of("ib.phys@", {"lab"}));
  CHECK_FALSE(is_breaker_of("ib.phys@lab", {}));
  CHECK(is_breaker_of("ib.phys", {}));
}

TEST_CASE("a fault that all nodes share drains none of them") {
  for (const int nodes : {2, 3, 4, 40, 100}) {
    INFO(nodes);
    Bench bench(a_job().on_nodes(1).of_cluster(nodes));
    stall(bench, 1, nodes);
    CHECK(drained(bench) == 0);
    CHECK(bench.count<BreakerOpened>() == 0);
    bench.pass(shared_cause_settles + a_moment);
    CHECK(bench.count<NodeFaulted>() == 0);
    CHECK(bench.count<BreakerOpened>() == 1);
    CHECK(bench.is_in<Running>());
    bench.pass(Seconds{3600});
    CHECK(bench.count<NodeFaulted>() == 0);
    CHECK(replay(bench.journal).disagreements.empty());
  }
}

TEST_CASE("nodes that come to see it one after the other share it too") {
  Bench bench(a_job().on_nodes(1).of_cluster(40), 0);
  for (int number = 1; number <= 40; ++number) {
    stall(bench, number, number);
    bench.pass(Seconds{3});  // the last after two minutes
  }
  bench.pass(Seconds{600});
  CHECK(bench.count<NodeFaulted>() == 0);
  CHECK(bench.count<BreakerOpened>() == 1);
}

TEST_CASE("one that is over before all have told of it drains nobody and opens nothing") {
  Bench bench(a_job().on_nodes(1).of_cluster(40), 0);
  stall(bench, 1, 40);
  bench.pass(shared_cause_settles - Seconds{1});
  for (int number = 1; number <= 40; ++number) bench.report_faults(number, {});
  bench.pass(Seconds{600});
  CHECK(bench.count<NodeFaulted>() == 0);
  CHECK(bench.count<BreakerOpened>() == 0);
}

TEST_CASE("a single node that has such a fault is drained when it has stood for a while") {
  Bench bench(a_job().on_nodes(1).of_cluster(40), 0);
  const Time begin = bench.now;
  stall(bench, 7, 7);
  CHECK(next_wake(bench.state, bench.now));
  bench.pass(shared_cause_settles - a_moment);
  CHECK(!is_drained(bench, 7));
  bench.pass(a_moment);
  REQUIRE(is_drained(bench, 7));
  CHECK(bench.node(7).fault_drain->since == begin + shared_cause_settles);
  CHECK(bench.count<BreakerOpened>() == 0);
  SECTION("told again with something else, it does not begin anew") {
    stall(bench, 8, 8);
    bench.pass(Seconds{100});
    bench.report_faults(8, {a_stall(bench.now), a_fault("host.nfs_log", bench.now)});
    bench.pass(shared_cause_settles - Seconds{100});
    CHECK(is_drained(bench, 8));
  }
}

TEST_CASE("a fault of the node's own, or one that stops its job, waits for nothing") {
  Bench bench(a_job().on_nodes(2).of_cluster(8));
  NodeFault fault = a_stall(bench.now);
  fault.stops_job = true;
  bench.report_faults(2, {fault});
  CHECK(is_drained(bench, 2));
  CHECK(bench.is_in<Stopping>());
  bench.report_faults(5, {a_stall(bench.now), a_fault("gpu.count", bench.now)});
  REQUIRE(is_drained(bench, 5));
  CHECK(bench.node(5).fault_drain->fault.check == "gpu.count");
}

TEST_CASE("what only observes, or was found before somebody armed the check again, counts not") {
  Bench bench(a_job().on_nodes(1).of_cluster(20), 0);
  SECTION("observed") {
    NodeFault observed = a_stall(bench.now);
    observed.enforced = false;
    for (int number = 2; number <= 20; ++number) bench.report_faults(number, {observed});
    stall(bench, 1, 1);
    bench.pass(shared_cause_settles);
    CHECK(is_drained(bench, 1));
    CHECK(drained(bench) == 1);
  }
  SECTION("armed again") {
    stall(bench, 2, 20);
    bench.pass(shared_cause_settles);
    REQUIRE(bench.count<BreakerOpened>() == 1);
    bench.observe(BreakerReset{"host.mount_stall"});
    bench.pass(Seconds{10});
    stall(bench, 1, 1);
    bench.pass(shared_cause_settles);
    CHECK(is_drained(bench, 1));
    CHECK(drained(bench) == 1);
  }
}

TEST_CASE("a node that was drained for another fault comes back though all share one") {
  Bench bench(a_job().on_nodes(1).of_cluster(20), 0);
  bench.report_faults(1, {a_fault("gpu.count", bench.now)});
  REQUIRE(is_drained(bench, 1));
  stall(bench, 1, 20);
  bench.pass(fault_drain_least + a_moment);
  CHECK(drained(bench) == 0);
  CHECK(bench.count<NodeFaultOver>() == 1);
}

TEST_CASE("nodes of jobs that are over are a fleet of their own") {
  Bench bench;
  bench.link_all(10);
  stall(bench, 1, 10);
  bench.pass(shared_cause_settles);
  CHECK(bench.count<NodeFaulted>() == 0);
  CHECK(bench.count<BreakerOpened>() == 1);
  CHECK(bench.last<BreakerOpened>()->target == "host.mount_stall@");
  CHECK(checks_withheld(bench.state, "lab").empty());
}

TEST_CASE("while no live job's target has a node, any open breaker of the check spares it") {
  Bench bench(a_job("one").on_nodes(1).of_cluster(4));
  CHECK(drained_of(bench, 1, 3) == 2);
  bench.finish("one");
  bench.pass(Seconds{700});
  CHECK(drained_of(bench, 4, 4) == 2);
  bench.submit(a_job("next").on_nodes(1).of_cluster(4));
  CHECK(drained(bench) == 2);
  CHECK(bench.count<BreakerOpened>() == 1);
}

TEST_CASE("the journal alone tells since when faults stand, and whom remedies were for") {
  Bench bench(a_job("one").on_nodes(1).of_cluster(3));
  NodeFault warning = a_fault("gpu.xid", bench.now);
  warning.remedy = Remedy::warn;
  warning.on_recurrence = Remedy::reset;
  warning.code = "32";
  bench.report_faults(1, {warning});
  bench.pass(Seconds{5});
  bench.report_faults(1, {warning, a_stall(bench.now)});
  bench.finish("one");
  bench.start(a_job("two").on_nodes(1).of_cluster(3));
  bench.report_faults(1, {warning, a_fault("ib.phys", bench.now)});
  REQUIRE(bench.state.remedies.size() == 2);
  CHECK(bench.state.remedies.front().job == "one");
  CHECK(bench.rebuilt().nodes.at(NodeId{"h01"}).faults_told == bench.node(1).faults_told);
}
