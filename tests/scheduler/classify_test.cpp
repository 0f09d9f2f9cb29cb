#include <csignal>

#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

TEST_CASE("the earliest failure is named, not the first to be reported") {
  Bench bench(a_job().on_nodes(4));
  bench.exit_rank(3, {1, 0}, Milliseconds{10});
  bench.exit_and_obey(2, {0, SIGSEGV}, Milliseconds{250});
  CHECK(
      bench.the<AttemptEnded>().cause.sentence ==
      "rank 2 on h03 was killed by SIGSEGV 240 ms (±4.0 ms) before any other; 1 failed afterwards");
  CHECK(bench.the<AttemptEnded>().cause.first_rank == RankId{2});
  CHECK(bench.the<AttemptEnded>().cause.status.signal == SIGSEGV);
}

TEST_CASE("failures that is unknown apart in time are all named") {
  Bench bench(a_job().on_nodes(4));
  bench.exit_rank(3, {1, 0}, Milliseconds{10});
  bench.exit_and_obey(1, {2, 0}, Milliseconds{11});
  CHECK(bench.the<AttemptEnded>().cause.sentence ==
        "first failure unknown, one of: rank 1 on h02 and rank 3 on h04: rank 1 exited with code "
        "2; rank 3 "
        "exited with code 1");
  CHECK(!bench.the<AttemptEnded>().cause.first_rank);
}

TEST_CASE("ranks that muster stopped are not to blame") {
  Bench bench(a_job().on_nodes(2));
  bench.exit_rank(1, {3, 0});
  RankExited stopped{
      JobId{"train"}, AttemptId{0}, NodeId{"h01"}, RankId{0}, {0, SIGTERM}, true, 0, {}};
  bench.observe(stopped);
  bench.obey();
  CHECK(bench.the<AttemptEnded>().cause.first_rank == RankId{1});
  CHECK(bench.the<AttemptEnded>().cause.failure_class == FailureClass::user);
}

TEST_CASE("ranks that failed because a node was lost are not to blame either") {
  Bench bench(a_job().on_nodes(2));
  RankExited left;
  left.job = JobId{"train"};
  left.node = NodeId{"h01"};
  left.status.code = 1;
  bench.observe(left);
  bench.unlink(2);
  bench.link(2, 2, 2);
  bench.obey();
  CHECK(bench.the<AttemptEnded>().cause.failure_class == FailureClass::infra);
  CHECK(bench.the<AttemptEnded>().cause.first_node == NodeId{"h02"});
  CHECK(bench.the<AttemptEnded>().cause.sentence == "h02 rebooted; 1 failed afterwards");
}

TEST_CASE("progress is a step beyond the one resumed from, or a newer checkpoint") {
  Bench bench(a_job().on_nodes(1));
  bench.progress(100, sealed(100));
  bench.fail_and_retry(0, {1, 0});
  CHECK(bench.the<AttemptEnded>().cause.made_progress);
  SECTION("neither") {
    bench.progress(100, sealed(100));
    bench.fail_and_retry(0, {1, 0});
    CHECK(!bench.the<AttemptEnded>().cause.made_progress);
  }
  SECTION("a step alone") {
    bench.progress(101);
    bench.fail_and_retry(0, {1, 0});
    CHECK(bench.the<AttemptEnded>().cause.made_progress);
  }
  SECTION("a checkpoint alone") {
    bench.progress(0, sealed(101, 2));
    bench.fail_and_retry(0, {1, 0});
    CHECK(bench.the<AttemptEnded>().cause.made_progress);
  }
}

TEST_CASE("in an attempt that began anew any checkpoint and any step are progress") {
  Bench bench(a_job().on_nodes(1));
  bool expected = true;
  SECTION("a checkpoint before the first step") {
    bench.progress(0, sealed(0));
  }
  SECTION("a step") {
    bench.progress(1);
  }
  SECTION("nothing") {
    expected = false;
  }
  bench.fail_and_retry(0, {1, 0});
  CHECK(bench.the<AttemptEnded>().cause.made_progress == expected);
}
