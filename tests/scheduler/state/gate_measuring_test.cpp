// Which gates measure a node: health.start, and health.failure after an attempt that failed there.
#include "scheduler/state/gate_benchmark.h"

#include "scheduler/state/limits.h"
#include "tests/catch.h"
#include "tests/scheduler/elastic_bench.h"

using namespace muster;
using namespace muster::test;

namespace {

const NodeId h01{"h01"}, h02{"h02"}, h03{"h03"};

// Ranks ran on h01 and h02, and not on h03, which was to have some as well.
PastAttempt ended(StopReason reason, int at_ms = 1000) {
  PastAttempt past;
  past.ended_at = from_ms(at_ms);
  past.cause.reason = reason;
  past.nodes = {h01, h02, h03};
  past.ran = {{h01, std::nullopt, past.ended_at}, {h02, std::nullopt, past.ended_at}};
  return past;
}

Job job_with(HealthLevel start, const std::string& failure, std::vector<PastAttempt> past) {
  Job job;
  job.spec.muster.health_start = start;
  if (!failure.empty()) job.spec.muster.other["health.failure"] = failure;
  job.past = std::move(past);
  return job;
}

Job failed_once(const std::string& failure = "full", HealthLevel start = HealthLevel::quick) {
  return job_with(start, failure, {ended(StopReason::rank_failed)});
}

bool is_measured(const Job& job, const NodeId& node) {
  return gate_measuring(job, node).is_wanted;
}

}  // namespace

TEST_CASE("the gate measures where ranks ran in an attempt that failed, and nowhere else") {
  const Job job = failed_once();
  CHECK(is_measured(job, h01));
  CHECK(is_measured(job, h02));
  CHECK_FALSE(is_measured(job, h03));
  CHECK(gate_measuring(job, h02).since == from_ms(1000));
}

TEST_CASE("the first gate measures only where the job says so") {
  for (const char* failure : {"", "full", "quick", "off"}) {
    CHECK_FALSE(is_measured(job_with(HealthLevel::quick, failure, {}), h01));
    CHECK_FALSE(is_measured(job_with(HealthLevel::off, failure, {}), h01));
    const Job full = job_with(HealthLevel::full, failure, {});
    CHECK(is_measured(full, h01));
    CHECK_FALSE(gate_measuring(full, h01).since);
  }
}

TEST_CASE("a job that looks less closely at failures, or has no gate, does not measure for them") {
  CHECK(is_measured(failed_once("full"), h01));
  CHECK_FALSE(is_measured(failed_once(""), h01));
  CHECK_FALSE(is_measured(failed_once("quick"), h01));
  CHECK_FALSE(is_measured(failed_once("off"), h01));
  CHECK_FALSE(is_measured(failed_once("full", HealthLevel::off), h01));
  CHECK(gate_measuring(failed_once("full", HealthLevel::full), h01).since);
  // Figures of before the failure are believed then.
  const Job job = failed_once("quick", HealthLevel::full);
  CHECK(is_measured(job, h01));
  CHECK_FALSE(gate_measuring(job, h01).since);
}

TEST_CASE("the latest failure on a node counts, whatever came between") {
  const Job job = job_with(HealthLevel::quick, "full",
                           {ended(StopReason::rank_failed, 1000), ended(StopReason::hung, 2000),
                            ended(StopReason::preempted, 3000)});
  CHECK(gate_measuring(job, h01).since == from_ms(2000));
  CHECK_FALSE(is_measured(job, h03));
}

TEST_CASE("who was asked to go did not fail: the next attempt's gate does not measure for it") {
  const auto is_measured_after = [](StopReason reason) {
    return is_measured(job_with(HealthLevel::quick, "full", {ended(reason)}), h01);
  };
  for (const StopReason reason :
       {StopReason::rank_failed, StopReason::node_lost, StopReason::hung, StopReason::faulty}) {
    INFO(static_cast<int>(reason));
    CHECK(is_measured_after(reason));
  }
  for (const StopReason reason :
       {StopReason::canceled, StopReason::time_limit, StopReason::start_failed, StopReason::drained,
        StopReason::finished, StopReason::preempted}) {
    INFO(static_cast<int>(reason));
    CHECK_FALSE(is_measured_after(reason));
  }
  // A rule says of the rank that something outside ended it.
  Job terminated = failed_once();
  terminated.past.back().cause.failure_class = FailureClass::preempted;
  CHECK_FALSE(is_measured(terminated, h01));
}

TEST_CASE("a node that failed and left an elastic attempt is measured when it is taken again") {
  Job job = job_with(HealthLevel::quick, "full", {});
  Attempt attempt;
  attempt.launched = true;
  for (const NodeId& id : {h01, h02, h03}) {
    AttemptNode node;
    node.id = id;
    attempt.nodes.push_back(node);
    const auto place = static_cast<int>(attempt.ranks.size());
    attempt.ranks.push_back({RankId{place}, place, 0, RankWaiting{}});
  }
  AttemptNode& left = attempt.nodes[1];
  left.departure = Departure{{}, from_ms(5000), true};
  left.departure->why.reason = StopReason::rank_failed;
  const auto gate = [&] {
    job.phase = Active{attempt};
    return gate_measuring(job, h02);
  };
  CHECK(gate().is_wanted);
  CHECK(gate().since == from_ms(5000));
  CHECK_FALSE(is_measured(job, h01));
  left.departure->why.reason = StopReason::preempted;
  CHECK_FALSE(gate().is_wanted);
  left.departure->why.reason = StopReason::rank_failed;
  left.join.emplace();  // and nothing was started there
  CHECK_FALSE(gate().is_wanted);
  left.join.reset();
  attempt.launched = false;
  CHECK_FALSE(gate().is_wanted);
}

namespace {

JobBuilder measured_after_failures(JobBuilder job) {
  job.spec().muster.other["health.failure"] = "full";
  return job;
}

JobBuilder measured_always() {
  JobBuilder job = a_job().on_nodes(2).of_cluster(2).nodes_wait(60);
  job.spec().muster.health_start = HealthLevel::full;
  return job;
}

void find_slow(Bench& bench, int node) {
  bench.observe(NodeChecked{
      JobId{"train"}, bench.attempt().id, NodeId{node_name(node)}, {{"perf.cpu", "too slow"}}, {}});
}

}  // namespace

TEST_CASE("a node that failed and left an elastic attempt is measured after that has ended") {
  ElasticBench bench(measured_after_failures(a_job().elastic(2, 4).restarts(3)), 3);
  bench.kill_and_obey(1);
  const auto left = bench.attempt().nodes.at(1);
  REQUIRE(is_released(left));
  REQUIRE(left.departure->why.reason == StopReason::rank_failed);
  bench.pass(Seconds{30});
  const Time before = bench.now;
  const Job& job = bench.job();
  CHECK(gate_measuring(job, h02).since == left.departure->at);
  // The others are asked to go: nothing failed there.
  bench.drain(1, true, Milliseconds{0});
  bench.drain(3, true, Milliseconds{0});
  bench.obey_after(Seconds{120});
  REQUIRE(bench.is_live());
  REQUIRE_FALSE(bench.job().past.empty());
  REQUIRE(bench.job().past.back().ended_at >= before);
  CHECK(gate_measuring(bench.job(), h02).since == left.departure->at);
  CHECK_FALSE(is_measured(bench.job(), h01));
  CHECK_FALSE(is_measured(bench.job(), h03));
}

TEST_CASE("nodes of an attempt that failed before its launch are not measured") {
  Bench bench(measured_after_failures(a_job().on_nodes(2).of_cluster(3).restarts(3)), 3);
  for (const char* node : {"h01", "h02"}) {
    const auto work = pending_work(bench.state, NodeId{node});
    REQUIRE(work);
    bench.obey(*work);
  }
  REQUIRE(bench.is_in<Staging>());
  bench.unlink(2);
  bench.pass(Seconds{120});
  REQUIRE_FALSE(bench.job().past.empty());
  CHECK(bench.job().past.front().cause.reason == StopReason::node_lost);
  for (const NodeId& node : {h01, h02, h03}) CHECK_FALSE(is_measured(bench.job(), node));
}

TEST_CASE("a node that refused to start ranks is not measured, its neighbours that ran are") {
  Bench bench(measured_after_failures(a_job().on_nodes(2).of_cluster(2).restarts(3)), 2);
  bench.obey_until<Starting>();
  bench.obey(*pending_work(bench.state, h01));
  bench.observe(NodeStarted{JobId{"train"}, bench.attempt().id, h02, "no such user", ""});
  bench.obey();
  REQUIRE_FALSE(bench.job().past.empty());
  Job job = bench.job();
  REQUIRE(job.past.size() == 1);
  REQUIRE(job.past[0].ran.size() == 1);
  CHECK(job.past[0].ran[0].node == h01);
  CHECK_FALSE(is_measured(job, h01));  // that it could not be started is no failure of its node
}

TEST_CASE("muster.nodes.wait does not count while nodes are measured") {
  Bench bench(measured_always(), 2);
  bench.obey(*pending_work(bench.state, h01));
  bench.pass(Seconds{300});
  find_slow(bench, 2);
  REQUIRE(bench.last<PlacementAbandoned>());
  REQUIRE(bench.is_live());
  CHECK(bench.job().measured_meanwhile == Seconds{300});
  // What is known is said at once: from here on it waits.
  const Time waits = bench.now;
  for (int i = 0; i < 120 && bench.is_live(); ++i) {
    if (bench.is_in<Gathering>()) find_slow(bench, 2);
    bench.pass(Seconds{1});
  }
  CHECK_FALSE(bench.is_live());
  CHECK(bench.now - waits >= Seconds{60});
  CHECK_THAT(bench.last<JobEnded>()->reason,
             ContainsSubstring("timed out after 1 min (muster.nodes.wait, besides 5 min in which"));
}

TEST_CASE("what was measured before the nodes of an attempt were found counts for no later wait") {
  Bench bench(measured_always(), 2);
  bench.obey(*pending_work(bench.state, h01));
  bench.pass(Seconds{300});
  find_slow(bench, 2);
  REQUIRE(bench.job().measured_meanwhile == Seconds{300});
  bench.obey_after(Seconds{10});
  REQUIRE(bench.is_in<Running>());
  CHECK(bench.job().measured_meanwhile == Seconds{0});
}

TEST_CASE("what a gate measured before its agent was lost is no waiting either") {
  Bench bench(measured_always(), 2);
  bench.obey(*pending_work(bench.state, h01));
  bench.pass(Seconds{100});
  bench.unlink(2);
  bench.pass(Seconds{10});
  bench.link(2);
  bench.pass(Seconds{50});
  find_slow(bench, 2);
  REQUIRE(bench.is_live());
  CHECK(bench.job().measured_meanwhile == Seconds{150});
}

TEST_CASE("a gate that never answers, and a node that nobody reaches, are waited for") {
  Bench bench(measured_always(), 0);
  bench.link(1);
  SECTION("no answer of the gate") {
    bench.link(2);
    bench.obey(*pending_work(bench.state, h01));
    bench.pass(check_limit + Seconds{1});
    CHECK_FALSE(bench.is_live());
  }
  SECTION("not reached") {
    bench.obey(*pending_work(bench.state, h01));
    bench.unlink(2, LinkFailureKind::unreachable);
    bench.pass(Seconds{600});
    CHECK_FALSE(bench.is_live());
  }
}

TEST_CASE("nodes that are measured side by side are counted once") {
  const auto at = [](int ms) { return from_ms(ms); };
  std::vector<TimeSpan> spans;
  const auto add = [&](int from, int to) { add_measured(spans, TimeSpan{at(from), at(to)}); };
  const auto text = [&] {
    std::string all;
    for (const TimeSpan& one : spans) {
      all += std::to_string(to_ms(one.from)) + "-" + std::to_string(to_ms(one.to)) + " ";
    }
    return all;
  };
  add(50, 60);
  add(10, 20);
  add_measured(spans, std::nullopt);
  CHECK(text() == "10-20 50-60 ");
  add(15, 30);
  CHECK(text() == "10-30 50-60 ");
  add(60, 70);
  CHECK(text() == "10-30 50-70 ");
  add(5, 100);
  CHECK(text() == "5-100 ");
}
