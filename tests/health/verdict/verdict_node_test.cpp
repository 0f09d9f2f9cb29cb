#include "health/verdict/node_verdict.h"

#include "tests/catch.h"
#include "tests/health/verdict/verdict_builders.h"

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

TEST_CASE("a required check without a pass is unknown, one that was bad once unconfirmed") {
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

// ---- whose fault a job's failures are --------------------------------------------------------
