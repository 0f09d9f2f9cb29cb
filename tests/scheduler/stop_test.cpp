#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

NodeClean stuck(int node) {
  return {JobId{"train"}, AttemptId{0}, NodeId{node_name(node)}, {}, {"python (pid 7)"}};
}

// Runs to the end of its ranks, whose nodes are proven clean: their outputs are being copied.
void start_collecting(Bench& bench, int nodes) {
  bench.start(a_job().on_nodes(nodes));
  for (int rank = 0; rank < nodes; ++rank) bench.exit_rank(rank, {});
  while (bench.is_in<Stopping>()) bench.obey(pending_work(bench.state).front());
  REQUIRE(bench.is_in<Collecting>());
}

OutputsCollected not_copied(int node) {
  return {JobId{"train"}, AttemptId{0}, NodeId{node_name(node)}, "cannot read outputs/model.bin"};
}

}  // namespace

TEST_CASE("an attempt that never launched needs no proof from its nodes") {
  Bench bench(a_job().on_nodes(2), 0);
  bench.cancel();
  CHECK(!bench.is_live());
  CHECK(bench.count<NodeFenced>() == 2);
  CHECK(bench.count<CollectionBegun>() == 0);
}

TEST_CASE("who cancels again does not wait for the grace") {
  Bench bench(a_job().on_nodes(1));
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
  Bench bench(a_job().on_nodes(2).timeout(100));
  bench.exit_rank(0, {1, 0});
  bench.observe(CancelRequested{JobId{"train"}, Seconds{1}});
  CHECK(bench.last<StopBegun>()->grace == Seconds{1});
  CHECK(bench.last<StopBegun>()->reason == StopReason::rank_failed);
  CHECK(bench.job().ran_for == Seconds{0});
  bench.obey();
  CHECK(bench.last<AttemptEnded>()->cause.reason == StopReason::rank_failed);
}

TEST_CASE("the lease of an unreachable node is waited for, then it is fenced") {
  Bench bench(a_job().on_nodes(2));
  bench.unlink(2);
  bench.cancel();
  bench.obey();
  CHECK(bench.is_in<Stopping>());
  bench.pass(Seconds{64});
  CHECK(bench.is_live());
  bench.obey_after(Seconds{2});
  CHECK(!bench.is_live());
  CHECK(bench.last<NodeFenced>()->node == NodeId{"h02"});
}

TEST_CASE("a silent node is fenced when its lease and the margin are over, not sooner") {
  Bench bench(a_job().on_nodes(2));
  bench.unlink(2);
  bench.cancel();
  bench.obey();
  // 60 s, 4 s in which a keeper ends what its agent does not, and 2 % for a slow clock.
  bench.pass(Milliseconds{65'199});
  CHECK(bench.count<NodeFenced>() == 0);
  bench.pass(Milliseconds{1});
  REQUIRE(bench.count<NodeFenced>() == 1);
  CHECK(bench.last<NodeFenced>()->proof == FenceProof::lease_expired);
}

TEST_CASE("the lease that its agent holds is waited for, from the node's last word on") {
  Bench bench(a_job().on_nodes(2));
  LinkUp up = *linked_agent(bench.state, NodeId{"h02"});
  SECTION("a short one") {
    up.lease = Milliseconds{20'000};
    bench.observe(up);
    bench.observe(
        LinkDown{NodeId{"h02"}, {LinkFailureKind::lost, "silent"}, {}, false, Seconds{10}});
    bench.cancel();
    bench.obey();
    bench.pass(Milliseconds{14'399});
    CHECK(bench.count<NodeFenced>() == 0);
    bench.pass(Milliseconds{1});
    CHECK(bench.count<NodeFenced>() == 1);
  }
  SECTION("one that is longer than the job's target says") {
    up.lease = Milliseconds{120'000};
    bench.observe(up);
    bench.unlink(2);
    bench.cancel();
    bench.obey();
    bench.pass(Milliseconds{126'399});
    CHECK(bench.count<NodeFenced>() == 0);
    bench.pass(Milliseconds{1});
    CHECK(bench.count<NodeFenced>() == 1);
  }
}

TEST_CASE("a node that comes back while stopping is asked to stop and proves itself clean") {
  Bench bench(a_job().on_nodes(2));
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
  Bench bench(a_job().on_nodes(1));
  bench.cancel();
  bench.observe(stuck(1));
  bench.pass(Seconds{119});
  CHECK(bench.is_live());
  bench.pass(Seconds{2});
  CHECK(!bench.is_live());
  bench.submit(a_job("next").on_nodes(4));
  CHECK(bench.last<JobPending>()->reason ==
        "waits for 1 of 4 nodes of lab: h01 has processes of job train that do not die");
  REQUIRE(pending_work(bench.state, NodeId{"h01"}));
  CHECK(nodes_to_connect(bench.state).count(NodeId{"h01"}) == 1);
  bench.observe(NodeClean{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, {}, {}});
  CHECK(bench.nodes("next").size() == 4);
}

TEST_CASE("a reboot frees a node with processes that did not die") {
  Bench bench(a_job().on_nodes(1));
  bench.cancel();
  bench.observe(stuck(1));
  bench.pass(Seconds{121});
  bench.link(1, 2, 2);
  CHECK(!bench.node(1).owner);
}

TEST_CASE("processes that die late make the node clean before the limit") {
  Bench bench(a_job().on_nodes(1));
  bench.cancel();
  bench.observe(stuck(1));
  bench.obey_after(Seconds{20});
  CHECK(!bench.is_live());
  CHECK(!bench.node(1).owner);
}

TEST_CASE("a job whose outputs stay on a node that vanished has failed, and says where they are") {
  Bench bench;
  start_collecting(bench, 2);
  bench.unlink(2);
  bench.obey();
  bench.pass(Seconds{599});
  REQUIRE(bench.is_in<Collecting>());
  bench.pass(Seconds{2});
  const JobEnded& end = *bench.last<JobEnded>();
  CHECK(end.state == JobEndState::failed);
  CHECK(end.exit_code == 92);
  CHECK(end.reason ==
        "every rank ended with 0, but the outputs of h02 were not copied (h02 cannot be reached: "
        "no answer): what it has of them is still on h02 in outputs/ and logs/ of /jobs/train");
  CHECK(bench.count<OutputsCollected>() == 1);
}

TEST_CASE("a job whose outputs go to a store is completed when they are there") {
  Bench bench(a_job().on_nodes(2), 0);
  bench.state.jobs.at(JobId{"train"}).spec.outputs["model"].is_in_store = true;
  const auto delivered = [](std::string error) {
    return OutputsDelivered{JobId{"train"}, AttemptId{0}, std::move(error)};
  };
  start_collecting(bench, 2);
  // Before they are collected nothing of the kind is believed.
  bench.observe(delivered(""));
  CHECK(bench.count<DeliveryBegun>() == 0);
  bench.obey();
  bench.pass(Seconds{100'000});
  REQUIRE(bench.is_in<Collecting>());
  CHECK(bench.count<DeliveryBegun>() == 1);
  SECTION("they are") {
    bench.observe(delivered(""));
    CHECK(bench.last<JobEnded>()->state == JobEndState::completed);
  }
  SECTION("they are not") {
    bench.observe(delivered("the store is away"));
    CHECK(bench.last<JobEnded>()->exit_code == 92);
    CHECK(bench.last<JobEnded>()->reason == "the ranks succeeded, but the store is away");
  }
  SECTION("a cancelled job is not waited for") {
    bench.cancel();
    CHECK(bench.last<JobEnded>()->state == JobEndState::canceled);
    CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("muster resume train --upload"));
  }
}

TEST_CASE("outputs of the nodes that are left go to the store when the last node is lost") {
  Bench bench(a_job().on_nodes(2), 0);
  bench.state.jobs.at(JobId{"train"}).spec.outputs["model"].asset_name = "net";
  start_collecting(bench, 2);
  bench.unlink(2);
  bench.obey();
  CHECK(bench.count<DeliveryBegun>() == 0);
  bench.pass(Seconds{601});
  REQUIRE(bench.count<DeliveryBegun>() == 1);
  bench.observe(OutputsDelivered{JobId{"train"}, AttemptId{0}, ""});
  CHECK(bench.last<JobEnded>()->exit_code == 92);
}

TEST_CASE("outputs that a controller lost while they went to the store are collected again first") {
  Bench bench(a_job().on_nodes(2), 0);
  bench.state.jobs.at(JobId{"train"}).spec.outputs["model"].is_in_store = true;
  start_collecting(bench, 2);
  bench.obey();
  REQUIRE(bench.count<DeliveryBegun>() == 1);
  bench.observe(OutputsCollected{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, "it was restarted"});
  const OutputsDelivered delivered{JobId{"train"}, AttemptId{0}, ""};
  bench.observe(delivered);  // of what was there: not of all
  CHECK(bench.is_in<Collecting>());
  bench.pass(Seconds{5});
  REQUIRE(bench.owes<CollectWork>(1));
  CHECK(!bench.owes<CollectWork>(2));
  CHECK(bench.count<DeliveryBegun>() == 1);
  bench.obey();
  CHECK(bench.count<DeliveryBegun>() == 2);
  bench.observe(delivered);
  CHECK(bench.last<JobEnded>()->state == JobEndState::completed);
}

TEST_CASE("ranks that never met have trained alone, which the job's end says") {
  Bench bench(a_job().on_nodes(2));
  for (int rank = 0; rank < 2; ++rank) {
    RankExited exit;
    exit.job = JobId{"train"};
    exit.node = NodeId{node_name(rank + 1)};
    exit.rank = RankId{rank};
    exit.evidence.never_met = rank == 0;
    bench.observe(exit);
  }
  bench.obey();
  CHECK(bench.last<JobEnded>()->exit_code == 0);
  CHECK_THAT(bench.last<JobEnded>()->reason,
             ContainsSubstring("each of the 2 ranks may have trained alone"));
}

TEST_CASE("a node that comes back in time still gives its outputs") {
  Bench bench;
  start_collecting(bench, 2);
  bench.unlink(2);
  bench.obey();
  bench.pass(Seconds{500});
  bench.link(2, 2, 2);
  bench.obey();
  CHECK(bench.last<JobEnded>()->exit_code == 0);
}

TEST_CASE("outputs that cannot be copied are collected again, and then no longer") {
  Bench bench;
  start_collecting(bench, 2);
  bench.observe(not_copied(1));
  bench.observe(not_copied(1));
  CHECK(!pending_work(bench.state, NodeId{"h01"}));
  bench.pass(Seconds{5});
  const auto again = pending_work(bench.state, NodeId{"h01"});
  REQUIRE(again);
  CHECK(std::get<CollectWork>(again->work).failures == 1);
  bench.obey(*pending_work(bench.state, NodeId{"h02"}));
  for (const int pause : {10, 20, 30, 0}) {
    REQUIRE(bench.is_live());
    bench.observe(not_copied(1));
    bench.pass(Seconds{pause});
  }
  const JobEnded& end = *bench.last<JobEnded>();
  CHECK(end.exit_code == 92);
  CHECK(end.reason.find("h01 were not copied (cannot read outputs/model.bin)") !=
        std::string::npos);
}

TEST_CASE("outputs that are copied at the second try are copied") {
  Bench bench;
  start_collecting(bench, 1);
  bench.observe(not_copied(1));
  bench.obey_after(Seconds{5});
  CHECK(bench.last<JobEnded>()->exit_code == 0);
}

TEST_CASE("outputs that had arrived and were lost before they were in place are collected again") {
  Bench bench;
  start_collecting(bench, 2);
  bench.obey(*pending_work(bench.state, NodeId{"h01"}));
  bench.observe(not_copied(1));
  bench.pass(Seconds{5});
  CHECK(pending_work(bench.state).size() == 2);
}

TEST_CASE("who cancels waits for no second try, and is told what stays on the node") {
  Bench bench;
  start_collecting(bench, 1);
  bench.observe(not_copied(1));
  bench.cancel();
  CHECK(bench.ended_with() == 92);
}

TEST_CASE("a linked node that sends no outputs is given up, but not while they arrive") {
  Bench bench;
  start_collecting(bench, 1);
  for (int minute = 0; minute < 60; ++minute) {
    bench.observe(CollectionSeen{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, minute});
    bench.pass(Seconds{60});
  }
  REQUIRE(bench.is_in<Collecting>());
  bench.pass(Seconds{20 * 60});
  CHECK(bench.last<JobEnded>()->reason.find("h01 sent nothing for 20 min") != std::string::npos);
}

TEST_CASE("a fresh agent gives the outputs of the one before") {
  Bench bench(a_job().on_nodes(1));
  bench.exit_rank(0, {});
  bench.link(1, 2);
  REQUIRE(bench.is_in<Collecting>());
  bench.obey();
  CHECK(bench.last<JobEnded>()->exit_code == 0);
}

TEST_CASE("an agent that never proves its ranks gone is not waited for, nor is the job restarted") {
  Bench bench(a_job().on_nodes(2));
  bench.exit_rank(0, {1, 0});
  bench.obey(*pending_work(bench.state, NodeId{"h01"}));
  bench.pass(Seconds{30 * 60 + 299});  // stop.grace_max, and half an hour
  REQUIRE(bench.is_in<Stopping>());
  bench.pass(Seconds{1});
  bench.obey(*pending_work(bench.state, NodeId{"h01"}));
  CHECK(bench.last<NodeFenced>()->proof == FenceProof::none);
  REQUIRE(!bench.is_live());
  const JobEnded& end = *bench.last<JobEnded>();
  CHECK(end.exit_code == 92);
  CHECK(end.reason.find("not restarted, because it may still run on h02") != std::string::npos);
  CHECK(end.reason.find("h02 has not proven that its ranks are gone") != std::string::npos);
  CHECK(bench.count<RetryScheduled>() == 0);
  bench.submit(a_job("next").on_nodes(4));
  CHECK(bench.last<JobPending>()->job == JobId{"next"});
  bench.observe(NodeClean{JobId{"train"}, AttemptId{0}, NodeId{"h02"}, {}, {}});
  CHECK(bench.nodes("next").size() == 4);
}

TEST_CASE("the next wake-up is the nearest moment at which something would be decided") {
  Bench bench(a_job().on_nodes(1).timeout(500));
  const Time started = bench.now;
  CHECK(next_wake(bench.state, bench.now) == started + Seconds{500});
  bench.unlink(1);
  CHECK(next_wake(bench.state, bench.now) == bench.now + Seconds{30});
}
