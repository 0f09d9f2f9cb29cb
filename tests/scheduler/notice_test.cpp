#include <csignal>

#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

TEST_CASE("a notice stops the attempt at nobody's charge, in the time that the host has") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(10, sealed(10));
  bench.notice(2);
  REQUIRE(bench.is_in<Stopping>());
  const StopBegun& why = *bench.last<StopBegun>();
  CHECK(why.reason == StopReason::preempted);
  CHECK(why.sentence == "h02 leaves in 25 s (notice by /run/leave)");
  CHECK(why.grace == Seconds{23});
  CHECK(why.grace_max == Seconds{23});
  bench.obey();
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::preempted);
  CHECK(!bench.last<RetryScheduled>()->charged);
  CHECK(bench.is_in<Running>());
  CHECK(bench.nodes() == Names{"h01", "h03"});
  CHECK(bench.count<NodeSuspected>() == 0);
}

TEST_CASE("a late notice leaves the grace of the job, which may grow up to the host's time") {
  Bench bench(a_job().on_nodes(1));
  bench.notice(1, Seconds{120});
  CHECK(bench.last<StopBegun>()->grace == Seconds{30});
  CHECK(bench.last<StopBegun>()->grace_max == Seconds{118});
}

TEST_CASE("a notice that names no time leaves the job all its grace") {
  Bench bench(a_job().on_nodes(1));
  bench.notice(1, std::nullopt);
  CHECK(bench.last<StopBegun>()->grace == Seconds{30});
  CHECK(bench.last<StopBegun>()->grace_max == Seconds{300});
}

TEST_CASE("a spare takes over from a host that leaves; a spare that leaves is released") {
  Bench bench(a_job().on_nodes(2).spares(1));
  bench.notice(3);
  CHECK(bench.last<SpareDropped>()->node == NodeId{"h03"});
  CHECK(bench.is_in<Running>());
  bench.obey();
  bench.notice(1);
  bench.obey();
  CHECK(bench.nodes() == Names{"h04", "h02"});
}

TEST_CASE("a job with nowhere else to go waits until the notice is over or the host has rebooted") {
  Bench bench(a_job().on_nodes(2).of_cluster(2));
  bench.notice(2);
  bench.obey();
  CHECK_THAT(std::get<Queued>(bench.job().phase).reason, ContainsSubstring("h02 leaves in 25 s"));
  CHECK(nodes_to_connect(bench.state).count(NodeId{"h02"}) == 1);
  SECTION("over") {
    bench.observe(NodeNotice{NodeId{"h02"}, {}, "/run/leave", true, "boot1"});
  }
  SECTION("rebooted") {
    bench.unlink(2);
    bench.pass(Seconds{30});
    CHECK(!active_attempt(bench.job()));
    bench.link(2, 2, 2);
  }
  SECTION("nothing was heard of it for long") {
    bench.unlink(2);
    bench.pass(Seconds{39});
    CHECK(!active_attempt(bench.job()));
    bench.pass(Seconds{2});
    bench.link(2, 2);
  }
  SECTION("its time passed and another agent answers that says nothing of it") {
    bench.unlink(2);
    bench.link(2, 2);
    bench.pass(Seconds{25});
    CHECK(!active_attempt(bench.job()));
    bench.pass(Seconds{6});
  }
  bench.obey();
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a notice holds while the agent that gave it answers, however long ago its time was") {
  Bench bench(a_job().on_nodes(2).of_cluster(2));
  bench.notice(2);
  bench.obey();
  bench.pass(Seconds{36'000});
  CHECK(!active_attempt(bench.job()));
}

TEST_CASE("a host that leaves is passed over while gathering") {
  Bench bench(a_job().on_nodes(1).of_cluster(2), 2);
  bench.notice(1);
  CHECK(bench.nodes() == Names{"h02"});
}

TEST_CASE("a job that is not to be requeued ends with 96 if its last step is saved, else with 97") {
  const bool saved = GENERATE(true, false);
  Bench bench;
  auto job = a_job().on_nodes(1);
  job.spec().muster.class_actions["preempted"] = Reaction::stop;
  bench.start(job);
  bench.progress(10, sealed(10));
  bench.progress(15);
  bench.notice(1);
  if (saved) bench.on_disk[NodeId{"h01"}] = sealed(15);
  bench.obey();
  CHECK(bench.the<JobEnded>().exit_code == (saved ? 96 : 97));
}

TEST_CASE("a job without steps ends with 96 if it saved anything in that attempt") {
  const bool saved = GENERATE(true, false);
  Bench bench;
  auto job = a_job().on_nodes(1);
  job.spec().muster.class_actions["preempted"] = Reaction::stop;
  bench.start(job);
  bench.notice(1);
  if (saved) bench.on_disk[NodeId{"h01"}] = sealed(1);
  bench.obey();
  CHECK(bench.last<JobEnded>()->exit_code == (saved ? 96 : 97));
}

TEST_CASE("ranks that end because their host goes are not blamed") {
  Bench bench(a_job().on_nodes(2));
  bench.notice(2);
  bench.exit_and_obey(1, {0, SIGTERM});
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::preempted);
}
