#include <csignal>

#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

TEST_CASE("a job whose ranks all end with 0 is completed once its nodes are clean") {
  Bench bench(a_job().on_nodes(2).ranks_per_node(2));
  for (int rank = 0; rank < 4; ++rank) bench.exit_rank(rank, {});
  CHECK(bench.last<StopBegun>()->reason == StopReason::finished);
  CHECK(bench.is_live());
  bench.obey();
  CHECK(bench.count<OutputsCollected>() == 2);
  CHECK(bench.last<JobEnded>()->state == JobEndState::completed);
  CHECK(bench.last<JobEnded>()->exit_code == 0);
}

TEST_CASE("a failed rank stops the attempt at once and is named") {
  Bench bench(a_job().on_nodes(2));
  bench.exit_rank(1, {0, SIGKILL});
  REQUIRE(bench.is_in<Stopping>());
  CHECK(bench.last<StopBegun>()->reason == StopReason::rank_failed);
  CHECK(bench.last<StopBegun>()->sentence == "rank 1 on h02 was killed by SIGKILL");
}

TEST_CASE("a lost node stops the attempt and restarts it from the last sealed step") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(120, sealed(100));
  bench.unlink(2);
  bench.pass(Seconds{29});
  CHECK(bench.is_in<Running>());
  bench.pass(Seconds{2});
  CHECK(bench.last<StopBegun>()->reason == StopReason::node_lost);
  bench.obey();
  CHECK(bench.is_in<Stopping>());  // the lost node's lease is not over
  bench.obey_after(Seconds{50});
  bench.obey_after(Seconds{10});
  CHECK(bench.is_in<Running>());
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h03"});
  CHECK(bench.attempt().resume_from->step == 100);
  CHECK(bench.last<NodeFenced>()->proof == FenceProof::lease_expired);
  CHECK(bench.last<RetryScheduled>()->reschedule);
}

TEST_CASE("a host that refuses connections is lost within 5 s of its last word, unless it stops") {
  Bench bench(a_job().on_nodes(2));
  LinkDown down{NodeId{"h02"}, {LinkFailureKind::unreachable, "refused", false, true}};
  down.silent = Seconds{1};
  bench.observe(down);
  bench.pass(Seconds{2});
  CHECK(bench.is_in<Running>());
  SECTION("it goes on") {
    bench.pass(Seconds{2});
    CHECK(bench.last<StopBegun>()->reason == StopReason::node_lost);
    CHECK_THAT(bench.last<StopBegun>()->sentence, ContainsSubstring("h02 was lost for 4 s"));
  }
  SECTION("it is only silent from now on") {
    bench.observe(LinkDown{NodeId{"h02"}, {LinkFailureKind::unreachable, "timed out"}});
    bench.pass(Seconds{25});
    CHECK(bench.is_in<Running>());
  }
  SECTION("it is back") {
    bench.link(2);
    bench.pass(Seconds{60});
    CHECK(bench.is_in<Running>());
  }
}

TEST_CASE("nobody waits for a silent node longer than its lease, nor for its outputs") {
  Bench bench(a_job().on_nodes(2));
  LinkUp up = *linked_agent(bench.state, NodeId{"h02"});
  up.lease = Seconds{20};
  bench.observe(up);
  LinkDown down{NodeId{"h02"}, {LinkFailureKind::lost, "silent", true}};
  down.silent = Seconds{10};
  bench.observe(down);
  bench.pass(Milliseconds{7'900});  // a host that stands still for 15 s is back by then
  CHECK(bench.is_in<Running>());
  bench.pass(Milliseconds{100});
  CHECK(bench.last<StopBegun>()->reason == StopReason::node_lost);
  CHECK(bench.last<StopBegun>()->grace == Milliseconds{1'400});  // the others are gone with it
  bench.obey();
  bench.pass(Milliseconds{6'399});
  bench.obey();
  CHECK(bench.is_in<Stopping>());
  bench.pass(Milliseconds{1});
  bench.obey();
  CHECK(bench.last<RetryScheduled>()->at == bench.now);
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a link that comes back in time changes nothing") {
  Bench bench(a_job().on_nodes(2));
  bench.unlink(2);
  bench.pass(Seconds{25});
  bench.link(2);
  bench.pass(Seconds{120});
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a restarted agent or a reboot takes the ranks with it") {
  const bool rebooted = GENERATE(false, true);
  Bench bench(a_job().on_nodes(2));
  bench.unlink(2);
  bench.link(2, 2, rebooted ? 2 : 1);
  CHECK(bench.last<StopBegun>()->reason == StopReason::node_lost);
  bench.obey();
  CHECK(bench.last<NodeFenced>()->proof ==
        (rebooted ? FenceProof::boot_id_changed : FenceProof::agent_restarted));
  CHECK(bench.last<AttemptEnded>()->cause.first_node == NodeId{"h02"});
  CHECK(bench.last<AttemptEnded>()->cause.failure_class == FailureClass::infra);
}

TEST_CASE("a node that had nothing left to run is not missed") {
  Bench bench(a_job().on_nodes(2));
  bench.exit_rank(1, {});
  bench.unlink(2);
  bench.pass(Seconds{60});
  CHECK(bench.is_in<Running>());
}

TEST_CASE("an agent that stopped its ranks by itself counts as a lost node") {
  Bench bench(a_job().on_nodes(2));
  RankExited exit{
      JobId{"train"}, AttemptId{0}, NodeId{"h02"}, RankId{1}, {0, SIGTERM}, true, 0, {}};
  bench.observe(exit);
  CHECK(bench.last<StopBegun>()->reason == StopReason::node_lost);
}

TEST_CASE("limits.timeout counts the running time of all attempts and ends with 98") {
  Bench bench(a_job().on_nodes(1).timeout(100));
  bench.pass(Seconds{60});
  bench.progress(10, sealed(10));
  bench.exit_and_obey(0, {1, 0});
  bench.pass(Seconds{39});
  CHECK(bench.is_in<Running>());
  bench.pass(Seconds{2});
  REQUIRE(bench.is_in<Stopping>());
  bench.obey();
  CHECK(bench.last<JobEnded>()->exit_code == 98);
  CHECK(bench.last<JobEnded>()->state == JobEndState::canceled);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("timeout"));
}

TEST_CASE(
    "cancelling a running job stops it with the grace that was requested, and ends with 143") {
  Bench bench(a_job().on_nodes(2));
  bench.observe(CancelRequested{JobId{"train"}, Milliseconds{500}});
  CHECK(bench.last<StopBegun>()->reason == StopReason::canceled);
  CHECK(bench.last<StopBegun>()->grace == Milliseconds{500});
  bench.obey();
  CHECK(bench.last<JobEnded>()->exit_code == 143);
}

TEST_CASE("a cancel that comes while a finished job cleans up does not undo it") {
  Bench bench(a_job().on_nodes(1));
  bench.exit_rank(0, {});
  bench.cancel();
  bench.obey();
  CHECK(bench.last<JobEnded>()->state == JobEndState::completed);
}

TEST_CASE("a cancel while stopping after a failure ends the job instead of a retry") {
  Bench bench(a_job().on_nodes(1));
  bench.exit_rank(0, {1, 0});
  bench.cancel();
  bench.obey();
  CHECK(bench.last<JobEnded>()->exit_code == 143);
  CHECK(bench.count<RetryScheduled>() == 0);
}

TEST_CASE("a drained node keeps what runs on it") {
  Bench bench(a_job().on_nodes(2));
  bench.drain(2);
  bench.pass(Seconds{3600});
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a node that is drained with a limit gives up its attempt then, at nobody's charge") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(10, sealed(10));
  bench.drain(2, true, Seconds{600});
  bench.pass(Seconds{599});
  CHECK(bench.is_in<Running>());
  bench.pass(Seconds{2});
  REQUIRE(bench.is_in<Stopping>());
  CHECK(bench.last<StopBegun>()->sentence == "h02 was drained: new fan");
  bench.obey();
  CHECK(!bench.last<RetryScheduled>()->charged);
  CHECK(bench.is_in<Running>());
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h03"});
  CHECK(bench.last<LaunchBegun>()->resume_from->step == 10);
}

TEST_CASE("an undrained node keeps its attempt after all, and a second drain sets a new limit") {
  Bench bench(a_job().on_nodes(1));
  bench.drain(1, true, Seconds{600});
  SECTION("undrained") {
    bench.drain(1, false);
  }
  SECTION("drained again without a limit") {
    bench.drain(1);
  }
  bench.pass(Seconds{3600});
  CHECK(bench.is_in<Running>());
  bench.drain(1, true, Seconds{0});
  CHECK(bench.is_in<Stopping>());
}

TEST_CASE("late and repeated news about ranks change nothing") {
  Bench bench(a_job().on_nodes(1));
  bench.progress(5);
  bench.fail_and_retry(0, {1, 0});
  REQUIRE(bench.is_in<Running>());
  RankExited late{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, RankId{0}, {9, 0}, false, 0, {}};
  bench.observe(late);
  CHECK(bench.is_in<Running>());
  bench.exit_rank(0, {});
  bench.exit_and_obey(0, {7, 0});
  CHECK(bench.last<JobEnded>()->exit_code == 0);
}
