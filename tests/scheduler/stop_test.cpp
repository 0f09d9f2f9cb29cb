#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

NodeClean stuck(int node) {
  return {JobId{"train"}, AttemptId{0}, NodeId{node_name(node)}, {}, {"python (pid 7)"}};
}

}  // namespace

TEST_CASE("an attempt that never launched needs no proof from its nodes") {
  Bench bench;
  bench.submit(a_job().on_nodes(2));
  bench.cancel();
  CHECK(!bench.is_live());
  CHECK(bench.count<NodeFenced>() == 2);
  CHECK(bench.count<CollectionBegun>() == 0);
}

TEST_CASE("who cancels again does not wait for the grace") {
  Bench bench;
  bench.start(a_job().on_nodes(1));
  bench.cancel();
  REQUIRE(bench.last<StopBegun>()->grace == Seconds{30});
  bench.observe(CancelRequested{JobId{"train"}, Seconds{10}});
  CHECK(bench.last<StopBegun>()->grace == Seconds{10});
  bench.observe(CancelRequested{JobId{"train"}, Seconds{20}});
  CHECK(bench.last<StopBegun>()->grace == Seconds{10});
  bench.cancel();
  CHECK(bench.last<StopBegun>()->grace == Seconds{0});
  CHECK(std::get<StopWork>(pending_work(bench.state)[0].work).why.grace == Seconds{0});
  bench.cancel();
  CHECK(bench.count<StopBegun>() == 3);
  bench.obey();
  CHECK(bench.last<JobEnded>()->exit_code == 143);
}

TEST_CASE("a cancel with a short grace hurries an attempt that stops for another reason") {
  Bench bench;
  bench.start(a_job().on_nodes(2).timeout(100));
  bench.exit_rank(0, {1, 0});
  bench.observe(CancelRequested{JobId{"train"}, Seconds{1}});
  CHECK(bench.last<StopBegun>()->grace == Seconds{1});
  CHECK(bench.last<StopBegun>()->reason == StopReason::rank_failed);
  CHECK(bench.job().ran_for == Seconds{0});
  bench.obey();
  CHECK(bench.last<AttemptEnded>()->cause.reason == StopReason::rank_failed);
}

TEST_CASE("the lease of an unreachable node is waited for, then it is fenced") {
  Bench bench;
  bench.start(a_job().on_nodes(2));
  bench.unlink(2);
  bench.cancel();
  bench.obey();
  CHECK(bench.is_in<Stopping>());
  bench.pass(Seconds{64});
  CHECK(bench.is_live());
  bench.pass(Seconds{2});
  bench.obey();
  CHECK(!bench.is_live());
  CHECK(bench.last<NodeFenced>()->node == NodeId{"h02"});
}

TEST_CASE("a node that comes back while stopping is asked to stop and proves itself clean") {
  Bench bench;
  bench.start(a_job().on_nodes(2));
  bench.unlink(2);
  bench.cancel();
  bench.obey();
  bench.pass(Seconds{30});
  bench.link(2);
  const auto work = pending_work(bench.state, NodeId{"h02"});
  REQUIRE(work);
  CHECK(std::holds_alternative<StopWork>(work->work));
  bench.obey();
  CHECK(!bench.is_live());
  CHECK(bench.count<NodeFenced>() == 0);
}

TEST_CASE("a node with processes that do not die is left behind, and stays taken until they do") {
  Bench bench;
  bench.start(a_job().on_nodes(1));
  bench.cancel();
  bench.observe(stuck(1));
  bench.pass(Seconds{119});
  CHECK(bench.is_live());
  bench.pass(Seconds{2});
  CHECK(!bench.is_live());
  bench.submit(a_job("next").on_nodes(4));
  CHECK(bench.last<JobWaits>()->reason ==
        "waits for 1 of 4 nodes of lab: h01 has processes of job train that do not die");
  REQUIRE(pending_work(bench.state, NodeId{"h01"}));
  CHECK(nodes_to_connect(bench.state).count(NodeId{"h01"}) == 1);
  bench.observe(NodeClean{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, {}, {}});
  CHECK(bench.nodes("next").size() == 4);
}

TEST_CASE("a reboot frees a node with processes that did not die") {
  Bench bench;
  bench.start(a_job().on_nodes(1));
  bench.cancel();
  bench.observe(stuck(1));
  bench.pass(Seconds{121});
  bench.link(1, 2, 2);
  CHECK(!bench.state.nodes.at(NodeId{"h01"}).owner);
}

TEST_CASE("processes that die late make the node clean before the limit") {
  Bench bench;
  bench.start(a_job().on_nodes(1));
  bench.cancel();
  bench.observe(stuck(1));
  bench.pass(Seconds{20});
  bench.obey();
  CHECK(!bench.is_live());
  CHECK(!bench.state.nodes.at(NodeId{"h01"}).owner);
}

TEST_CASE("outputs are collected from clean nodes, and a node that vanishes meanwhile is skipped") {
  Bench bench;
  bench.start(a_job().on_nodes(2));
  bench.exit_rank(0, {});
  bench.exit_rank(1, {});
  while (bench.is_in<Stopping>()) bench.obey(pending_work(bench.state).front());
  REQUIRE(bench.is_in<Collecting>());
  bench.unlink(2);
  bench.obey();
  CHECK(bench.is_in<Collecting>());
  bench.pass(Seconds{31});
  CHECK(bench.last<JobEnded>()->exit_code == 0);
  CHECK(bench.count<OutputsCollected>() == 1);
}

TEST_CASE("the next wake-up is the nearest moment at which something would be decided") {
  Bench bench;
  bench.start(a_job().on_nodes(1).timeout(500));
  const Time started = bench.now;
  CHECK(next_wake(bench.state, bench.now) == started + Seconds{500});
  bench.unlink(1);
  CHECK(next_wake(bench.state, bench.now) == bench.now + Seconds{30});
}
