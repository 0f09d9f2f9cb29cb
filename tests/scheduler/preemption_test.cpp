#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

JobBuilder cheap(const std::string& name, int nodes) {
  return a_job(name).on_nodes(nodes).preemptible();
}

Names stopped(const Bench& bench) {
  Names names;
  for (const Record& record : bench.journal) {
    const auto* stop = record_as<StopBegun>(record);
    if (stop && stop->reason == StopReason::preempted) names.push_back(stop->job.value);
  }
  return names;
}

}  // namespace

TEST_CASE("a preemptible job makes room for a higher priority, with its grace and uncharged") {
  Bench bench(cheap("cheap", 4));
  bench.submit(a_job("dear").on_nodes(2).priority(10));
  REQUIRE(bench.is_in<Stopping>("cheap"));
  const StopBegun& why = *bench.last<StopBegun>();
  CHECK(why.sentence == "gives its nodes to job dear, whose priority is 10 and not 0");
  CHECK(why.grace == Seconds{30});
  CHECK(why.grace_max == Seconds{300});
  bench.obey();
  CHECK(bench.is_in<Running>("dear"));
  CHECK(!bench.last<RetryScheduled>()->charged);
  CHECK(bench.last<RetryScheduled>()->avoid.empty());
  CHECK_THAT(std::get<Queued>(bench.job("cheap").phase).reason,
             ContainsSubstring("is running job dear"));
  bench.finish("dear");
  bench.obey();
  CHECK(bench.is_in<Running>("cheap"));
}

TEST_CASE("nobody is stopped for the same or a lower priority, nor when not preemptible") {
  Bench bench;
  SECTION("same") {
    bench.start(cheap("cheap", 4).priority(10));
    bench.submit(a_job("dear").on_nodes(2).priority(10));
  }
  SECTION("not preemptible") {
    bench.start(a_job("cheap").on_nodes(4));
    bench.submit(a_job("dear").on_nodes(2).priority(10));
  }
  bench.pass(Seconds{60});
  CHECK(stopped(bench).empty());
}

TEST_CASE("nobody is stopped when that does not make room enough") {
  Bench bench(cheap("cheap", 2));
  bench.submit(a_job("solid").on_nodes(2));
  bench.submit(a_job("dear").on_nodes(4).priority(10));
  bench.pass(Seconds{60});
  CHECK(stopped(bench).empty());
}

TEST_CASE("the lowest priority goes first, then one that is enough, then the youngest") {
  Bench bench;
  SECTION("lowest priority") {
    bench.start(cheap("low", 2).priority(1));
    bench.submit(cheap("mid", 2).priority(2));
    bench.submit(a_job("dear").on_nodes(2).priority(10));
    CHECK(stopped(bench) == Names{"low"});
  }
  SECTION("one rather than two") {
    bench.start(cheap("pair", 2));
    bench.submit(cheap("single", 1));
    bench.submit(cheap("other", 1));
    bench.submit(a_job("dear").on_nodes(2).priority(10));
    CHECK(stopped(bench) == Names{"pair"});
  }
  SECTION("youngest") {
    bench.start(cheap("older", 2));
    bench.pass(Seconds{5});
    bench.submit(cheap("younger", 2));
    bench.submit(a_job("dear").on_nodes(2).priority(10));
    CHECK(stopped(bench) == Names{"younger"});
  }
  SECTION("no more than needed") {
    bench.start(cheap("a", 1));
    bench.submit(cheap("b", 1));
    bench.submit(cheap("c", 1));
    bench.submit(a_job("dear").on_nodes(2).priority(10));  // one node is free
    CHECK(stopped(bench).size() == 1);
  }
}

TEST_CASE("nodes that come free anyway are waited for") {
  Bench bench(cheap("cheap", 2));
  bench.submit(a_job("other").on_nodes(2));
  bench.obey();
  bench.cancel("other");
  bench.submit(a_job("dear").on_nodes(2).priority(10));
  CHECK(stopped(bench).empty());
  bench.obey();
  CHECK(bench.nodes("dear") == Names{"h03", "h04"});
}

TEST_CASE("while a victim saves, no second one is stopped for the same nodes") {
  Bench bench(cheap("a", 2));
  bench.submit(cheap("b", 2));
  bench.obey();
  bench.submit(a_job("dear").on_nodes(2).priority(10));
  bench.pass(Seconds{20});
  CHECK(stopped(bench).size() == 1);
}

TEST_CASE("a preemptible job that is about to restart gives way to a higher priority") {
  Bench bench(cheap("cheap", 4));
  bench.exit_rank(0, {1, 0}, {}, "cheap");
  bench.submit(a_job("dear").on_nodes(4).priority(10));
  bench.obey();
  CHECK(bench.is_in<Running>("dear"));
}

TEST_CASE("jobs do not preempt each other for ever") {
  Bench bench(cheap("low", 4));
  bench.submit(cheap("mid", 4).priority(5));
  bench.obey();
  bench.submit(a_job("high").on_nodes(4).priority(10));
  bench.obey();
  REQUIRE(bench.is_in<Running>("high"));
  bench.pass(Seconds{600});
  CHECK(stopped(bench) == Names{"low", "mid"});
  bench.finish("high");
  bench.obey();
  CHECK(bench.is_in<Running>("mid"));
  bench.finish("mid");
  bench.obey();
  CHECK(bench.is_in<Running>("low"));
}

TEST_CASE("a job whose gang was not fit after all stops nobody a second time") {
  Bench bench(cheap("cheap", 4));
  bench.submit(a_job("dear").on_nodes(4).priority(10).nodes_wait(600));
  while (!bench.is_in<Gathering>("dear")) bench.obey(pending_work(bench.state).front());
  bench.fail_check(1, "dear");
  REQUIRE(bench.last<PlacementAbandoned>());
  bench.obey();
  REQUIRE(bench.is_in<Running>("cheap"));
  bench.pass(Seconds{120});
  CHECK(stopped(bench) == Names{"cheap"});
}

TEST_CASE("what a job restarts on goes to a higher priority only when the job may be preempted") {
  const bool is_preemptible = GENERATE(true, false);
  const int priority = GENERATE(-1, 0, 1);
  Bench bench;
  auto job = a_job("restarts").on_nodes(4);
  if (is_preemptible) job.preemptible();
  bench.start(job);
  bench.exit_and_obey(0, {2, 0}, {}, "restarts");  // the first restart is at once
  bench.exit_and_obey(0, {1, 0}, {}, "restarts");
  REQUIRE(std::holds_alternative<Backoff>(bench.job("restarts").phase));
  bench.submit(a_job("other").on_nodes(2).priority(priority));
  const bool gets_nodes = is_preemptible && priority > 0;
  CHECK(std::holds_alternative<Active>(bench.job("other").phase) == gets_nodes);
}
