#include "scheduler/resume_point.h"

#include "scheduler/resume_request.h"
#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

const LaunchBegun& launch(const Bench& bench) {
  REQUIRE(bench.last<LaunchBegun>());
  return *bench.last<LaunchBegun>();
}

void set_disk(Bench& bench, int nodes, CheckpointRef checkpoint) {
  for (int i = 1; i <= nodes; ++i) bench.on_disk[NodeId{node_name(i)}] = checkpoint;
}

std::int64_t resumed_step(const Bench& bench) {
  REQUIRE(launch(bench).resume_from);
  return launch(bench).resume_from->step;
}

}  // namespace

TEST_CASE("a first attempt without checkpoints starts from the beginning") {
  Bench bench;
  bench.start(a_job().on_nodes(1));
  CHECK(!launch(bench).resume_from);
}

TEST_CASE("a first attempt goes on from the newest checkpoint that a node found") {
  Bench bench;
  bench.on_disk[NodeId{"h01"}] = sealed(40);
  bench.on_disk[NodeId{"h02"}] = sealed(80);
  bench.start(a_job().on_nodes(2));
  CHECK(resumed_step(bench) == 80);
}

TEST_CASE("resume.from none starts afresh, but restarts go on from the job's own checkpoints") {
  Bench bench;
  set_disk(bench, 1, sealed(500, 9));
  bench.start(a_job().on_nodes(1).resume_from(ResumeFrom::none));
  CHECK(!launch(bench).resume_from);
  bench.observe(ProgressSeen{JobId{"train"}, AttemptId{0}, 10, sealed(10)});
  bench.fail_and_retry(0, {1, 0});
  CHECK(resumed_step(bench) == 10);
}

TEST_CASE("resume.from a path uses it until the job has sealed something itself") {
  Bench bench;
  const std::string path = "/elsewhere/s000000300-g7";
  bench.start(a_job().on_nodes(1).resume_from(ResumeFrom::path, path));
  CHECK(resumed_step(bench) == 300);
  CHECK(launch(bench).resume_from->directory == path);
  bench.fail_and_retry(0, {1, 0});
  CHECK(launch(bench).resume_from->directory == path);
  bench.progress(310, sealed(310, 2));
  bench.fail_and_retry(0, {1, 0});
  CHECK(resumed_step(bench) == 310);
}

TEST_CASE("a replacement node without checkpoints does not throw the job back") {
  Bench bench;
  bench.start(a_job().on_nodes(2));
  bench.progress(120, sealed(100));
  bench.link(2, 2);
  bench.obey();
  bench.pass(Seconds{10});
  bench.obey();
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h03"});
  CHECK(resumed_step(bench) == 100);
}

TEST_CASE("a checkpoint that is on no node any more is given up, with a reason") {
  Bench bench;
  bench.start(a_job().on_nodes(1));
  bench.progress(80, sealed(80));
  bench.progress(100, sealed(100));
  bench.exit_rank(0, {1, 0});
  bench.obey();
  set_disk(bench, 4, sealed(80));
  bench.pass(Seconds{10});
  bench.obey();
  CHECK(resumed_step(bench) == 80);
  CHECK(launch(bench).went_back);
  CHECK_THAT(launch(bench).why, ContainsSubstring("step 100"));
  CHECK(bench.violations().empty());
}

TEST_CASE("a finished job is resumed under the next attempt number, from the step asked for") {
  Bench bench;
  bench.start(a_job().on_nodes(1).restarts(0));
  bench.progress(200, sealed(200));
  bench.fail_and_retry(0, {1, 0});
  REQUIRE(!bench.is_live());
  SECTION("from the newest checkpoint") {
    const auto request = resume_request(bench.journal, {});
    REQUIRE(request);
    bench.on_disk.clear();
    bench.observe(*request);
    bench.obey();
    CHECK(bench.attempt().id == AttemptId{1});
    CHECK(resumed_step(bench) == 200);
  }
  SECTION("from an older step, which makes the newer ones another history") {
    bench.observe(*resume_request(bench.journal, 150));
    bench.obey();
    CHECK(resumed_step(bench) == 150);
    CHECK(launch(bench).went_back);
    bench.progress(160, sealed(160, 2));
    set_disk(bench, 4, sealed(200, 1));
    bench.exit_rank(0, {1, 0});
    bench.obey();
    bench.observe(*resume_request(bench.journal, {}));
    bench.obey();
    CHECK(resumed_step(bench) == 160);
  }
}

TEST_CASE("a job that is going on, or has ended well, is not resumed without a step") {
  Bench bench;
  bench.start(a_job().on_nodes(1));
  CHECK_THAT(resume_request(bench.journal, {}).error().message, ContainsSubstring("has not ended"));
  bench.finish();
  CHECK_THAT(resume_request(bench.journal, {}).error().message, ContainsSubstring("--from"));
  CHECK(resume_request(bench.journal, 5));
}

TEST_CASE("step and generation are read from a checkpoint's directory name, or are unknown") {
  CHECK(step_of("/ckpt/s000001200-g3") == 1200);
  CHECK(generation_of("/ckpt/s000001200-g3/") == 3);
  CHECK(!generation_of("/ckpt/global_step100"));
  CHECK(!generation_of("/ckpt/s1-gx"));
  CHECK(!step_of(""));
  CHECK(!step_of("/"));
}
