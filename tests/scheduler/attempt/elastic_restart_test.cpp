// An elastic job whose program does not follow MUSTER_MEMBERS: it gets other nodes with its next
// attempt, more of them only at a checkpoint, and is charged for neither.
#include "tests/scheduler/elastic_bench.h"

using namespace muster;
using namespace muster::test;

namespace {

using Names = std::vector<std::string>;

JobBuilder restarted(int least, int most) {
  JobBuilder job = a_job().elastic(least, most);
  job.spec().muster.elastic.mode = ElasticMode::restart;
  return job;
}

Names reserved(const Bench& bench) {
  Names names;
  for (const AttemptNode& spare : bench.attempt().spares) names.push_back(spare.id.value);
  return names;
}

CheckpointRef saved_at(std::int64_t step) {
  return {step, "/out/ckpt_" + std::to_string(step) + ".pt", "torch", step * 1000};
}

void lose(Bench& bench, int node) {
  bench.unlink(node);
  bench.pass(Seconds{200});
  bench.obey();
}

}  // namespace

TEST_CASE("it starts as any job does, on as many nodes as are free") {
  const ElasticBench bench(restarted(1, 3).ranks_per_node(2), 2);
  CHECK(bench.nodes() == Names{"h01", "h02"});
  CHECK(bench.count<MembersChanged>() == 0);
  CHECK(bench.attempt().ranks.size() == 4);
}

TEST_CASE("a node that comes is reserved after a first checkpoint and used at the next one") {
  ElasticBench bench(restarted(1, 3), 2);
  bench.link(3);
  bench.pass(Seconds{100});
  CHECK(reserved(bench).empty());  // it may never save anything
  bench.progress(10, saved_at(10));
  CHECK(reserved(bench) == Names{"h03"});
  bench.pass(Seconds{5});
  bench.obey();
  REQUIRE(bench.attempt().spares[0].staged);
  bench.progress(11);
  bench.pass(Seconds{100});
  CHECK(bench.is_in<Running>());
  bench.progress(20, saved_at(20));
  CHECK(bench.the<StopBegun>().reason == StopReason::rescaled);
  CHECK(bench.the<StopBegun>().sentence == "continues with 3 nodes instead of 2");
  bench.obey();
  CHECK(bench.nodes() == Names{"h01", "h02", "h03"});
  CHECK(bench.attempt().ranks.size() == 3);
  CHECK_FALSE(bench.the<RetryScheduled>().charged);
  CHECK(bench.the<LaunchBegun>().resume_from->directory == "/out/ckpt_20.pt");
  CHECK(bench.violations().empty());
}

TEST_CASE("a node that does not answer is not reserved, and is when it does") {
  ElasticBench bench(restarted(1, 3), 2);
  bench.progress(10, saved_at(10));
  CHECK(bench.count<SpareAdded>() == 0);
  bench.link(3);
  CHECK(reserved(bench) == Names{"h03"});
}

TEST_CASE("a reserved node that has not the job's files yet is not counted on") {
  ElasticBench bench(restarted(1, 3), 2);
  bench.link(3);
  bench.progress(10, saved_at(10));
  bench.obey_once(3);
  bench.pass(Seconds{100});
  REQUIRE(bench.owes<StageWork>(3));
  bench.progress(20, saved_at(20));
  CHECK(bench.is_in<Running>());
}

TEST_CASE("it says how many nodes it has at least, and takes what else is free") {
  ElasticBench bench(restarted(1, 4), 2);
  bench.link(3);
  bench.progress(10, saved_at(10));
  bench.pass(Seconds{5});
  bench.obey();
  bench.pass(Seconds{100});
  bench.link(4);
  bench.progress(20, saved_at(20));
  CHECK(bench.the<StopBegun>().sentence == "continues with at least 3 nodes instead of 2");
  bench.obey();
  CHECK(bench.nodes() == Names{"h01", "h02", "h03", "h04"});
}

TEST_CASE("it does not grow before ten times what its start took, or grow_after") {
  Bench bench;
  bench.link_all(4);
  for (int host = 2; host <= 4; ++host) bench.drain(host);
  bench.submit(restarted(1, 2));
  bench.obey_until<Staging>();
  bench.obey_after(Seconds{20});
  REQUIRE(bench.is_in<Running>());
  bench.drain(2, false);
  bench.progress(10, saved_at(10));
  bench.pass(Seconds{5});
  bench.obey();
  bench.progress(20, saved_at(20));
  CHECK(bench.is_in<Running>());
  CHECK(bench.nodes() == Names{"h01"});
  bench.pass(Seconds{1000});
  bench.progress(30, saved_at(30));
  bench.obey();
  CHECK(bench.nodes().size() == 2);
}

TEST_CASE("a lost node ends the attempt; the next one has the others, at once and not charged") {
  ElasticBench bench(restarted(1, 3), 3);
  bench.progress(10, saved_at(10));
  lose(bench, 2);
  CHECK(bench.nodes() == Names{"h01", "h03"});
  CHECK_FALSE(bench.the<RetryScheduled>().charged);
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a node whose hardware failed is not charged either") {
  ElasticBench bench(restarted(1, 3), 3);
  bench.progress(10, saved_at(10));
  bench.exit_and_obey(1, {1, 0}, {}, "train", "GPU has fallen off the bus");
  CHECK(bench.the<AttemptEnded>().cause.failure_class == FailureClass::hw);
  CHECK_FALSE(bench.the<RetryScheduled>().charged);
}

TEST_CASE("nodes that are lost before any progress are charged") {
  ElasticBench bench(restarted(1, 3), 3);
  lose(bench, 2);
  CHECK(bench.the<RetryScheduled>().charged);
}

TEST_CASE("where it asks for spares one is waited for, elastic.wait at most") {
  JobBuilder job = restarted(1, 3).spares(1);
  job.spec().muster.elastic.wait = Seconds{400};
  ElasticBench bench(job, 3);
  bench.progress(10, saved_at(10));
  lose(bench, 2);
  CHECK_FALSE(bench.is_in<Running>());
  CHECK(bench.count<AttemptPlaced>() == 1);
  SECTION("one comes") {
    bench.link(4);
    bench.obey();
    CHECK(bench.nodes() == Names{"h01", "h04", "h03"});
  }
  SECTION("none comes") {
    bench.pass(Seconds{500});
    bench.obey();
    CHECK(bench.nodes() == Names{"h01", "h03"});
  }
}

TEST_CASE("what is reserved for it goes to a job that waits") {
  ElasticBench bench(restarted(1, 4).of_cluster(3), 2);
  bench.link(3);
  bench.progress(10, saved_at(10));
  REQUIRE(reserved(bench) == Names{"h03"});
  bench.submit(a_job("other").on_nodes(1));
  bench.settle();
  CHECK(bench.nodes("other") == Names{"h03"});
  CHECK(bench.violations().empty());
}

TEST_CASE("what it grows to is beside the spares that it asks for, which it keeps") {
  ElasticBench bench(restarted(1, 3).spares(1), 2);
  bench.link(3);
  bench.link(4);
  bench.progress(10, saved_at(10));
  REQUIRE(reserved(bench) == Names{"h03", "h04"});
  bench.submit(a_job("other").on_nodes(1));
  bench.settle();
  CHECK(reserved(bench) == Names{"h03"});
  CHECK(bench.nodes("other") == Names{"h04"});
}

TEST_CASE("a live one that cannot do without a node it lost is charged") {
  ElasticBench bench(a_job().elastic(2, 3), 2);
  bench.progress(10, saved_at(10));
  lose(bench, 2);
  CHECK(bench.the<RetryScheduled>().charged);
}

TEST_CASE("a node that it lost is not its first choice when it starts again") {
  ElasticBench bench(restarted(1, 2), 3);
  bench.progress(10, saved_at(10));
  bench.drain(2, true, Milliseconds{0});
  bench.drain(2, false);
  bench.obey();
  CHECK(bench.nodes() == Names{"h01", "h03"});
}

TEST_CASE("with fewer than the least that it needs it waits") {
  ElasticBench bench(restarted(2, 3).of_cluster(3), 2);
  bench.progress(10, saved_at(10));
  lose(bench, 2);
  CHECK_FALSE(bench.is_in<Running>());
  bench.link(3);
  bench.obey();
  CHECK(bench.nodes() == Names{"h01", "h03"});
}

TEST_CASE("it grows back to a node that it lost, once that can be used again") {
  ElasticBench bench(restarted(1, 2).of_cluster(2), 2);
  bench.progress(10, saved_at(10));
  SECTION("drained, and undrained") {
    bench.drain(2, true, Milliseconds{0});
    bench.obey();
    bench.progress(20, saved_at(20));
    CHECK(bench.nodes() == Names{"h01"});
    CHECK(reserved(bench).empty());
    bench.drain(2, false);
  }
  SECTION("lost, and back") {
    lose(bench, 2);
    bench.progress(20, saved_at(20));
    bench.pass(Seconds{100});
    CHECK(reserved(bench).empty());
    bench.link(2);
  }
  SECTION("reclaimed, and left after all") {
    bench.notice(2);
    bench.obey();
    bench.progress(20, saved_at(20));
    CHECK(bench.nodes() == Names{"h01"});
    bench.observe(NodeNotice{NodeId{"h02"}, {}, "/run/leave", true, "boot1"});
  }
  SECTION("faulty, and repaired") {
    NodeFault fault;
    fault.id = "6f01ab";
    fault.check = "gpu.xid";
    fault.stops_job = true;
    fault.since = bench.now;
    bench.report_faults(2, {fault});
    bench.obey();
    bench.progress(20, saved_at(20));
    CHECK(bench.nodes() == Names{"h01"});
    bench.report_faults(2, {});
    bench.pass(Seconds{301});
  }
  SECTION("reserved, drained again and undrained again") {
    bench.drain(2, true, Milliseconds{0});
    bench.obey();
    bench.progress(20, saved_at(20));
    bench.drain(2, false);
    REQUIRE(reserved(bench) == Names{"h02"});
    bench.drain(2);
    REQUIRE(reserved(bench).empty());
    bench.drain(2, false);
  }
  CHECK(reserved(bench) == Names{"h02"});
  bench.pass(Seconds{5});
  bench.obey();
  bench.pass(Seconds{100});
  bench.progress(30, saved_at(30));
  bench.obey();
  CHECK(bench.nodes() == Names{"h01", "h02"});
}

TEST_CASE("it grows back to a node that a failure speaks against only when that was undrained") {
  ElasticBench bench(restarted(1, 2).of_cluster(2), 2);
  bench.progress(10, saved_at(10));
  bench.exit_and_obey(1, {1, 0}, {}, "train", "OSError: [Errno 28] No space left on device");
  bench.obey();
  REQUIRE(bench.nodes() == Names{"h01"});
  CHECK_THAT(bench.the<RetryScheduled>().rule, ContainsSubstring(", not on h02"));
  bench.progress(20, saved_at(20));
  bench.pass(Seconds{100});
  bench.progress(30, saved_at(30));
  CHECK(reserved(bench).empty());
  bench.drain(2);
  bench.drain(2, false);
  CHECK(reserved(bench) == Names{"h02"});
}
