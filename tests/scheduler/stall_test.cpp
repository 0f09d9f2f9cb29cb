// What the core makes of a stall; how it is found is stall_watch_test.cpp.
#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

StallSeen stall(const Bench& bench, StallKind kind, std::optional<int> rank = 1) {
  StallSeen seen;
  seen.job = JobId{"train"};
  seen.attempt = bench.attempt().id;
  seen.stall = kind;
  if (rank) {
    seen.rank = RankId{*rank};
    const auto index = static_cast<std::size_t>(*rank);
    seen.blamed = bench.attempt().nodes.at(index).id;
  }
  seen.step = 120;
  seen.sentence = "rank 1 on h02 is stopped by a signal (state T) after step 120";
  seen.evidence = {"rank 1 on h02: waits in do_signal_stop"};
  return seen;
}

void hang(Bench& bench) {
  bench.observe(stall(bench, StallKind::hung));
  bench.obey();
}

void go_on(Bench& bench) {
  bench.obey_after(Seconds{150});
}

}  // namespace

TEST_CASE("a hung rank stops the attempt, is named and moved away from its node") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(120, sealed(100));
  hang(bench);
  CHECK(bench.last<StopBegun>()->reason == StopReason::hung);
  CHECK(bench.last<StopBegun>()->blamed == NodeId{"h02"});
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.failure_class == FailureClass::hang);
  CHECK(cause.first_rank == RankId{1});
  CHECK(cause.first_node == NodeId{"h02"});
  REQUIRE(cause.first_failure);
  CHECK(cause.first_failure->rank == RankId{1});
  CHECK(cause.first_failure->evidence.size() == 1);
  CHECK(bench.last<RetryScheduled>()->reschedule);
  CHECK(bench.last<RetryScheduled>()->avoid == std::vector{NodeId{"h02"}});
  go_on(bench);
  CHECK(bench.is_in<Running>());
  CHECK(bench.attempt().resume_from->step == 100);
}

TEST_CASE("who hangs is not waited for: the grace is short, and not longer than asked for") {
  Bench bench;
  JobBuilder job = a_job().on_nodes(2);
  const bool is_short = GENERATE(false, true);
  if (is_short) job.spec().muster.stop.grace = Seconds{2};
  bench.start(job);
  bench.observe(stall(bench, StallKind::hung));
  CHECK(bench.last<StopBegun>()->grace == (is_short ? Seconds{2} : Seconds{10}));
}

TEST_CASE("a slow or suspected run is not stopped, and State forgets it when it is over") {
  Bench bench(a_job().on_nodes(2));
  for (const StallKind kind : {StallKind::slow, StallKind::suspect}) {
    bench.observe(stall(bench, kind));
    bench.pass(Seconds{3600});
    CHECK(bench.is_in<Running>());
    CHECK(bench.attempt().stall->stall == kind);
  }
  bench.observe(stall(bench, StallKind::over));
  CHECK(!bench.attempt().stall);
}

TEST_CASE("three hangs in a row end the job with 95") {
  Bench bench(a_job().on_nodes(2));
  for (int i = 0; i < 2; ++i) {
    hang(bench);
    go_on(bench);
    REQUIRE(bench.is_in<Running>());
  }
  hang(bench);
  REQUIRE(bench.last<JobEnded>() != nullptr);
  CHECK(bench.last<JobEnded>()->exit_code == 95);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("three times in a row"));
}

TEST_CASE("hangs that another failure comes between are not in a row") {
  Bench bench(a_job().on_nodes(2));
  std::int64_t step = 0;
  for (int i = 0; i < 4; ++i) {
    step += 100;
    bench.progress(step, sealed(step, i + 1));
    if (i % 2 == 0)
      hang(bench);
    else
      bench.exit_rank(0, {1, 0});
    bench.obey();
    go_on(bench);
    REQUIRE(bench.is_in<Running>());
  }
}

TEST_CASE("classes.hang.action: stop ends the job at its first hang") {
  Bench bench;
  JobBuilder job = a_job().on_nodes(2);
  job.spec().muster.class_actions["hang"] = Reaction::stop;
  bench.start(job);
  hang(bench);
  REQUIRE(bench.last<JobEnded>() != nullptr);
  CHECK(bench.last<JobEnded>()->exit_code == 95);
}

TEST_CASE("classes.hang.action: exclude_node never uses the node again") {
  Bench bench;
  JobBuilder job = a_job().on_nodes(2);
  job.spec().muster.class_actions["hang"] = Reaction::exclude_node;
  bench.start(job);
  hang(bench);
  CHECK(bench.last<RetryScheduled>()->exclude);
}

TEST_CASE("a hang that nobody is named for is no node's fault") {
  Bench bench(a_job().on_nodes(2));
  bench.observe(stall(bench, StallKind::hung, std::nullopt));
  bench.obey();
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.failure_class == FailureClass::hang);
  CHECK(!cause.first_rank);
  CHECK(!cause.first_node);
  CHECK(bench.last<RetryScheduled>()->avoid.empty());
}

TEST_CASE("news of a stall that come when the attempt stops already change nothing") {
  Bench bench(a_job().on_nodes(2));
  const StallSeen late = stall(bench, StallKind::hung);
  bench.exit_rank(0, {1, 0});
  bench.observe(late);
  bench.obey();
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::user);
}
