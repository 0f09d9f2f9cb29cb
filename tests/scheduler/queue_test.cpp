#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

const Queued& queued(const Bench& bench, const std::string& job) {
  const auto* phase = std::get_if<Queued>(&bench.job(job).phase);
  REQUIRE(phase);
  return *phase;
}

}  // namespace

TEST_CASE("a job takes the first free nodes of its target, in order") {
  Bench bench(a_job("one").on_nodes(2), 0);
  bench.submit(a_job("two").on_nodes(2));
  CHECK(bench.nodes("one") == Names{"h01", "h02"});
  CHECK(bench.nodes("two") == Names{"h03", "h04"});
}

TEST_CASE("a gang gets all its nodes or none, and the waiting job says who has them") {
  Bench bench;
  bench.drain(2);
  bench.submit(a_job("x").on_nodes(1));
  bench.submit(a_job("y").on_nodes(3));
  CHECK(bench.nodes("x") == Names{"h01"});
  CHECK(queued(bench, "y").reason ==
        "waits for 1 of 3 nodes of lab: h01 is running job x; h02 is drained: new fan");
  CHECK(!bench.node(3).owner);
}

TEST_CASE("a waiting reason is said once, not every time") {
  Bench bench(a_job("x").on_nodes(4), 0);
  bench.submit(a_job("y").on_nodes(4));
  bench.pass(Seconds{5});
  CHECK(bench.count<JobPending>() == 1);
}

TEST_CASE("a blocked gang keeps later jobs from its nodes: no backfill") {
  Bench bench(a_job("running").on_nodes(2), 0);
  bench.submit(a_job("big").on_nodes(4));
  bench.submit(a_job("small").on_nodes(1));
  CHECK(queued(bench, "small").reason == "pending behind job big, for which lab is kept");
}

TEST_CASE("a gang keeps only nodes that it could use itself") {
  Bench bench(a_job("running").on_nodes(1), 0);
  auto big = a_job("big").on_nodes(2);
  big.spec().muster.include_nodes = {"h01", "h02"};
  bench.submit(big);
  bench.submit(a_job("small").on_nodes(1));
  bench.submit(a_job("large").on_nodes(2));
  CHECK(bench.nodes("small") == Names{"h03"});
  CHECK(queued(bench, "large").reason ==
        "waits for 1 of 2 nodes of lab: h01 is running job running; h02 is kept for a job ahead of "
        "it; h03 is running job small");
}

TEST_CASE("a higher priority goes first") {
  Bench bench(a_job("running").on_nodes(4), 0);
  bench.submit(a_job("low").on_nodes(4));
  bench.submit(a_job("high").on_nodes(4).priority(10));
  bench.cancel("running");
  bench.pass(Seconds{1});
  CHECK(bench.nodes("high") == Names{"h01", "h02", "h03", "h04"});
  CHECK_THAT(queued(bench, "low").reason, ContainsSubstring("h01 is running job high"));
}

TEST_CASE("a gang that waits for a drained node does not block others") {
  Bench bench;
  bench.drain(1);
  bench.submit(a_job("big").on_nodes(4));
  bench.submit(a_job("small").on_nodes(1));
  CHECK(bench.nodes("small") == Names{"h02"});
  CHECK_THAT(queued(bench, "big").reason, ContainsSubstring("h01 is drained: new fan"));
}

TEST_CASE("a job for which the target is too small ends with 91") {
  Bench bench(a_job().on_nodes(5), 0);
  CHECK(bench.the<JobEnded>().exit_code == 91);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("needs 5 nodes, but lab has 4"));
}

TEST_CASE("placement keeps to the included and shuns the excluded nodes") {
  Bench bench;
  auto job = a_job().on_nodes(2);
  job.spec().muster.include_nodes = {"h02", "h03", "h04"};
  job.spec().muster.exclude_nodes = {"h03"};
  bench.submit(job);
  CHECK(bench.nodes() == Names{"h02", "h04"});
}

TEST_CASE("a queued job that is cancelled ends with 143") {
  Bench bench(a_job("x").on_nodes(4), 0);
  bench.submit(a_job("y").on_nodes(4));
  bench.cancel("y");
  CHECK(!bench.is_live("y"));
  CHECK(bench.last<JobEnded>()->exit_code == 143);
  CHECK(bench.last<JobEnded>()->state == JobEndState::canceled);
}

TEST_CASE("a job that backs off keeps its nodes from jobs behind it") {
  Bench bench(a_job().on_nodes(4));
  bench.submit(a_job("later").on_nodes(1));
  bench.exit_and_obey(0, {2, 0});  // whose restart waits for nothing
  bench.exit_and_obey(0, {1, 0});
  REQUIRE(std::holds_alternative<Backoff>(bench.job().phase));
  CHECK_THAT(queued(bench, "later").reason, ContainsSubstring("kept for a job ahead"));
  bench.pass(Seconds{10});
  CHECK(bench.nodes() == Names{"h01", "h02", "h03", "h04"});
}
