#include "health/verdict/node_verdict.h"

#include "health/verdict/drain_breaker.h"
#include "health/verdict/job_blame.h"
#include "tests/catch.h"
#include "tests/health/verdict_builders.h"

using namespace muster;

TEST_CASE("the worst fault names the drain, and any of them may stop the job") {
  WatchedNode node;
  node.run({a_failure("event.a", "gpu1", {Remedy::drain, {}, true}),
            a_failure("event.b", "gpu0", {Remedy::rma, {}, false}),
            a_failure("event.c", "", {Remedy::warn, {}, false})});
  const NodeVerdict verdict = node.verdict();
  REQUIRE(verdict.drains.size() == 2);
  CHECK(verdict.worst() == Remedy::rma);
  CHECK(verdict.stops_job());
  CHECK(verdict.reason().starts_with("muster:node:event.b:gpu0 "));
  CHECK(verdict.warnings.size() == 1);
}

TEST_CASE("a sound node has no reason") {
  WatchedNode node;
  node.run(a_pass("ib.phys"), 3);
  CHECK_FALSE(node.verdict().is_drained());
  CHECK_FALSE(node.verdict().stops_job());
  CHECK(node.verdict().reason().empty());
  CHECK(node.verdict().worst() == Remedy::warn);
}

TEST_CASE("a check that observes neither drains nor stops") {
  WatchedNode node;
  node.profile.checks["event.*"].mode = CheckMode::observe;
  node.run(a_failure("event.a", "", {Remedy::rma, {}, true}));
  CHECK_FALSE(node.verdict().stops_job());
  CHECK(node.verdict().would_drain.size() == 1);
  node.profile.checks["event.*"].mode = CheckMode::enforce;
  CHECK(node.verdict().stops_job());
  node.profile.checks["event.*"].mode = CheckMode::off;
  CHECK(node.verdict().would_drain.empty());
}

TEST_CASE("no node is drained for what a user's program did") {
  WatchedNode node;
  HealthFinding finding = a_failure("event.oom", "", {Remedy::drain, {}, true});
  finding.fault_class = FaultClass::user;
  node.run(finding);
  CHECK_FALSE(node.is_drained());
  CHECK(node.verdict().warnings.size() == 1);
}

TEST_CASE("a required check without a pass is unclear, one that was bad once unconfirmed") {
  WatchedNode node;
  node.profile.required = {"gpu.count", "gpu.silent", "ib.st*"};
  node.run({an_unknown("gpu.count"), a_pass("ib.state", "p"), a_failure("ib.phys", "p"),
            an_unknown("ib.rate", "p")});
  const NodeVerdict verdict = node.verdict();
  CHECK(verdict.unclear == std::vector<SampleWanted>{{"gpu.count", ""}, {"gpu.silent", ""}});
  CHECK(verdict.unconfirmed == std::vector<SampleWanted>{{"ib.phys", "p"}});
}

TEST_CASE("a drain of our own is undone after passes, one of somebody else never") {
  WatchedNode node;
  node.run(a_failure("ib.phys", "mlx5_3:1"), 3);
  const std::string reason = node.verdict().reason();
  CHECK_THAT(node.why_stays(reason).value_or(""), ContainsSubstring("would be drained again"));
  node.run(a_pass("ib.phys", "mlx5_3:1"), 3);
  CHECK_FALSE(node.why_stays(reason));
  CHECK_FALSE(node.why_stays(reason + " [root@2026-03-01T10:00:00]"));
  CHECK_THAT(node.why_stays("fan, bob").value_or(""),
             ContainsSubstring("somebody drained it: fan, bob"));
  CHECK(node.why_stays(reason + " - ask bob first"));
  CHECK(node.why_stays(""));
}

TEST_CASE("the same check on the same device has to pass") {
  WatchedNode node;
  const std::string reason = "muster:node:ib.phys:mlx5_3:1 01234567";
  node.run({a_pass("ib.phys", "mlx5_2:1"), a_pass("ib.rate", "mlx5_3:1")}, 9);
  CHECK_THAT(node.why_stays(reason).value_or(""), ContainsSubstring("was not looked at"));
  node.run(a_pass("ib.phys", "mlx5_3:1"), 2);
  CHECK(node.why_stays(reason).value_or("") == "ib.phys on mlx5_3:1 passed 2 of 3 times");
  node.run(a_pass("ib.phys", "mlx5_3:1"));
  CHECK_FALSE(node.why_stays(reason));
}

TEST_CASE("passes do not undo an event that nobody remembers") {
  WatchedNode node;
  node.run(an_xid("48", {Remedy::reset, {}, true}, "gpu3"));
  const std::string reason = node.verdict().reason();
  WatchedNode anew;
  anew.run(a_pass("gpu.xid", "gpu3"), 100);
  CHECK_THAT(anew.why_stays(reason).value_or(""), ContainsSubstring("was repaired"));
  note_reset(node.streaks, "gpu3", node.now);
  node.now += clear_after_event;
  node.run(a_pass("gpu.xid", "gpu3"), 3);
  CHECK_FALSE(node.why_stays(reason));
}

TEST_CASE("another fault keeps the node") {
  WatchedNode node;
  node.run(a_failure("ib.phys"), 3);
  const std::string reason = node.verdict().reason();
  node.run({a_pass("ib.phys"), a_failure("ib.rate")}, 3);
  CHECK(node.why_stays(reason));
}

TEST_CASE("a reason is set where there is none or an older one of our own") {
  WatchedNode node;
  CHECK_FALSE(reason_to_set("", node.verdict()));
  node.run(a_failure("ib.phys"), 3);
  const NodeVerdict verdict = node.verdict();
  CHECK(reason_to_set("", verdict) == verdict.reason());
  CHECK(reason_to_set("muster:node:ib.rate:p 01234567", verdict) == verdict.reason());
  CHECK_FALSE(reason_to_set(verdict.reason(), verdict));
  CHECK_FALSE(reason_to_set(verdict.reason() + " [root@x]", verdict));
  CHECK_FALSE(reason_to_set("fan", verdict));
  CHECK_FALSE(reason_to_set(verdict.reason() + " bob: keep", verdict));
}

// ---- the breaker -----------------------------------------------------------------------------

namespace {

struct Fleet {
  DrainBreakers breakers;
  BreakerProfile limits;
  std::size_t nodes = 40;
  Time now = from_ms(1'000'000'000);

  DrainAnswer ask(const std::string& check, int node) { return ask(check, node, now); }
  DrainAnswer ask(const std::string& check, int node, Time since) {
    return ask_to_drain(breakers, {check, {"n" + std::to_string(node)}, since}, nodes, limits, now);
  }
  int granted(const std::string& check, int count) {
    int sum = 0;
    for (int i = 0; i < count; ++i) sum += ask(check, i) == DrainAnswer::granted;
    return sum;
  }
};

}  // namespace

TEST_CASE("a check drains the larger of 2 and 5 % of the nodes in 10 minutes, and no more") {
  struct Row {
    std::size_t nodes;
    int granted;
  };
  for (const Row& row : {Row{1, 1}, Row{3, 2}, Row{40, 2}, Row{59, 2}, Row{60, 3}, Row{1000, 50}}) {
    INFO(row.nodes);
    Fleet fleet;
    fleet.nodes = row.nodes;
    CHECK(fleet.granted("ib.state", static_cast<int>(row.nodes)) == row.granted);
  }
}

TEST_CASE("an open breaker has the list of all nodes, and other checks go on") {
  Fleet fleet;
  fleet.granted("ib.state", 5);
  fleet.ask("ib.state", 3);
  const auto& incident = fleet.breakers["ib.state"].open;
  REQUIRE(incident);
  CHECK(incident->nodes == std::vector<NodeId>{{"n0"}, {"n1"}, {"n2"}, {"n3"}, {"n4"}});
  CHECK(incident->text ==
        "ib.state would drain n2 too: more than 2 of 40 nodes within 600 s look like one fault of "
        "network, storage or power");
  CHECK(fleet.ask("gpu.count", 9) == DrainAnswer::granted);
  fleet.now += Seconds{7 * 86'400};
  CHECK(fleet.ask("ib.state", 9) == DrainAnswer::withheld);
}

TEST_CASE("a node counts once, and only within the window") {
  Fleet fleet;
  for (int i = 0; i < 50; ++i) CHECK(fleet.ask("ib.state", 1) == DrainAnswer::granted);
  for (int i = 2; i < 50; ++i) {
    fleet.now += Seconds{301};
    CHECK(fleet.ask("ib.state", i) == DrainAnswer::granted);
  }
}

TEST_CASE("a breaker is closed by hand, and old findings do not open or pass it") {
  Fleet fleet;
  fleet.granted("ib.state", 5);
  const Time old = fleet.now;
  fleet.now += Seconds{60};
  close_breaker(fleet.breakers, "ib.state", fleet.now);
  CHECK_FALSE(fleet.breakers["ib.state"].open);
  for (int i = 0; i < 40; ++i) CHECK(fleet.ask("ib.state", i, old) == DrainAnswer::withheld);
  CHECK_FALSE(fleet.breakers["ib.state"].open);
  CHECK(is_withheld(fleet.breakers, "ib.state", old));
  fleet.now += Seconds{1};
  CHECK(fleet.granted("ib.state", 40) == 2);
  CHECK(fleet.breakers["ib.state"].open);
}

TEST_CASE("a check whose breaker is open would drain, and stops no job") {
  WatchedNode node;
  node.run(a_failure("ib.state", "p", {Remedy::drain, {}, true}), 3);
  REQUIRE(node.verdict().stops_job());
  node.breakers["ib.state"].open = BreakerIncident{};
  CHECK_FALSE(node.is_drained());
  CHECK_FALSE(node.verdict().stops_job());
  CHECK(node.verdict().would_drain.size() == 1);
  close_breaker(node.breakers, "ib.state", node.now);
  CHECK_FALSE(node.is_drained());
  forget_check(node.streaks, "ib.state");
  node.run(a_failure("ib.state", "p"), 3);
  CHECK(node.is_drained());
}

TEST_CASE("settings of a breaker that make no sense are no crash") {
  Fleet fleet;
  fleet.limits = {-1, -5, -600};
  CHECK(fleet.ask("a", 1) == DrainAnswer::withheld);
}

// ---- whose fault a job's failures are --------------------------------------------------------

TEST_CASE("a job that fails on two sets of nodes without a node in common fails by itself") {
  const FailedAttempt ab{{{"a"}, {"b"}}};
  const FailedAttempt bc{{{"b"}, {"c"}}};
  const FailedAttempt cd{{{"c"}, {"d"}}};
  const FailedAttempt explained{{{"e"}}, true};
  CHECK_FALSE(fails_by_itself({}));
  CHECK_FALSE(fails_by_itself(std::vector{ab, ab, ab}));
  CHECK_FALSE(fails_by_itself(std::vector{ab, bc, ab, bc}));
  CHECK(fails_by_itself(std::vector{ab, bc, cd}));
  CHECK_FALSE(fails_by_itself(std::vector{ab, explained}));
  CHECK_FALSE(fails_by_itself(std::vector{ab, FailedAttempt{}}));
}
