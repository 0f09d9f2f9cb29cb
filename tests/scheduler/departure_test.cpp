// Nodes that leave an elastic job while the others go on, and when they cannot.
#include "scheduler/state/sentences.h"
#include "tests/scheduler/elastic_bench.h"
#include "tests/sim/model/replay.h"

using namespace muster;
using namespace muster::test;

namespace {

RestartRule a_rule(Reaction action) {
  RestartRule rule;
  rule.id = "mine";
  rule.exit_codes = {{7, 7}};
  rule.action = action;
  return rule;
}

}  // namespace

// ---- why --------------------------------------------------------------------------------------

TEST_CASE("a rank that fails takes its node out, and the others go on") {
  ElasticBench bench(two_to_four().ranks_per_node(2), 3);
  bench.kill_rank(3);
  CHECK(bench.is_in<Running>());
  CHECK(bench.epoch() == 2);
  CHECK(bench.members() == std::vector<int>{0, 1, 4, 5});
  REQUIRE(bench.held(2)->departure);
  CHECK(bench.held(2)->departure->why.reason == StopReason::rank_failed);
  CHECK_THAT(bench.held(2)->departure->why.sentence, ContainsSubstring("rank 3 on h02 was killed"));
  CHECK(bench.held(2)->departure->why.grace == Seconds{30});
  for (const int node : {1, 2, 3}) CHECK(bench.owes<MembersWork>(node));
  bench.obey_once(2);
  const auto work = pending_work(bench.state, NodeId{"h02"});
  REQUIRE(work);
  REQUIRE(std::holds_alternative<StopWork>(work->work));
  CHECK(std::get<StopWork>(work->work).leaves);
  CHECK(std::get<StopWork>(work->work).why.grace == Seconds{30});
  bench.obey_once(2);
  CHECK(bench.owes<CollectWork>(2));
  CHECK(bench.owns(2));
  bench.obey_once(2);
  CHECK_FALSE(bench.owns(2));
  CHECK_FALSE(bench.held(2));
  CHECK(bench.last<NodeReleased>()->left_behind.empty());
  bench.obey();
  CHECK(bench.is_in<Running>());
  CHECK(bench.count<AttemptEnded>() == 0);
}

TEST_CASE("what the ranks of a node do after it left is no failure of the job") {
  ElasticBench bench(two_to_four().ranks_per_node(2), 3);
  bench.kill_rank(2);
  bench.kill_rank(3);
  CHECK(bench.is_in<Running>());
  CHECK(bench.epoch() == 2);
  bench.obey();
  bench.kill_rank(3);
  CHECK(bench.is_in<Running>());
  bench.end_members();
  bench.obey();
  CHECK(bench.ended_with() == 0);
  CHECK(bench.last<AttemptEnded>()->cause.left_behind.empty());
}

TEST_CASE("a node that is told to leave is done without, and has what time is left") {
  ElasticBench bench(two_to_four(), 3);
  bench.notice(1, Seconds{10});
  CHECK(bench.members() == std::vector<int>{1, 2});
  CHECK(bench.held(1)->departure->why.reason == StopReason::preempted);
  CHECK(bench.held(1)->departure->why.grace == Seconds{8});
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a drained node is left when its owner moves it, not before") {
  ElasticBench bench(two_to_four(), 3);
  bench.drain(2);
  CHECK(bench.epoch() == 1);
  bench.drain(3, true, Seconds{60});
  bench.pass(Seconds{59});
  CHECK(bench.epoch() == 1);
  bench.pass(Seconds{1});
  CHECK(bench.member_nodes() == std::vector<std::string>{"h01", "h02"});
  CHECK(bench.held(3)->departure->why.reason == StopReason::drained);
}

TEST_CASE("a node whose agent started anew is left at once, and comes back with other ranks") {
  ElasticBench bench(two_to_four(), 3);
  const int boot = GENERATE(1, 2);
  bench.link(2, 2, boot);
  CHECK(bench.members() == std::vector<int>{0, 2});
  CHECK(bench.held(2)->departure->why.reason == StopReason::node_lost);
  CHECK_THAT(bench.held(2)->departure->why.sentence,
             ContainsSubstring(boot == 1 ? "its agent restarted" : "rebooted"));
  CHECK(bench.held(2)->fenced);
  CHECK(bench.owes<CollectWork>(2));
  bench.obey();
  REQUIRE(bench.held(2));
  CHECK(bench.held(2)->started);
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h02", "h03", "h02"});
  bench.ready(2);
  CHECK(bench.members() == std::vector<int>{0, 2, 3});
  bench.obey();
  bench.end_members();
  bench.obey();
  CHECK_FALSE(bench.is_live());
}

TEST_CASE("a node that left is not taken again under the same agent") {
  ElasticBench bench(a_job().elastic(1, 2), 2);
  bench.kill_and_obey(1);
  CHECK_FALSE(bench.owns(2));
  bench.unlink(2);
  bench.link(2);
  bench.pass(Seconds{100});
  CHECK(bench.count<NodeAdded>() == 0);
  bench.link(2, 2);
  CHECK(bench.count<NodeAdded>() == 1);
}

TEST_CASE("a rule that excludes the node keeps it out under any agent, and of later attempts") {
  ElasticBench bench(a_job().elastic(1, 2).rule(a_rule(Reaction::exclude_node)), 2);
  bench.exit_and_obey(1, {7, 0});
  REQUIRE_FALSE(bench.owns(2));
  bench.link(2, 2);
  CHECK(bench.count<NodeAdded>() == 0);
  bench.kill_and_obey(0);
  bench.pass(Seconds{600});
  REQUIRE(bench.count<AttemptPlaced>() == 2);
  CHECK(bench.nodes() == std::vector<std::string>{"h01"});
}

TEST_CASE("a node out of reach is left when the run stands still for twenty seconds") {
  ElasticBench bench(two_to_four(), 3);
  bench.unlink(3);
  bench.pass(Seconds{5});
  bench.progress(7);
  bench.pass(Milliseconds{19'999});
  CHECK(bench.epoch() == 1);
  bench.pass(Milliseconds{1});
  CHECK(bench.members() == std::vector<int>{0, 1});
  CHECK(bench.held(3)->departure->why.reason == StopReason::node_lost);
  bench.obey();
  CHECK(bench.owns(3));  // its ranks may run until its lease is over
  CHECK_FALSE(bench.held(3)->fenced);
  bench.pass(Seconds{50});
  REQUIRE(bench.held(3)->fenced);
  CHECK(bench.held(3)->fenced == FenceProof::lease_expired);
  CHECK(bench.owns(3));  // what it wrote may still come
  bench.pass(Seconds{600});
  CHECK_FALSE(bench.owns(3));
  CHECK_THAT(bench.last<NodeReleased>()->left_behind, ContainsSubstring("outputs of h03"));
  CHECK(bench.is_in<Running>());
  SECTION("the job's success says so") {
    bench.finish();
    CHECK(bench.the<JobEnded>().state == JobEndState::completed);
  }
  SECTION("its failure says so, too") {
    bench.cancel();
    bench.obey();
    CHECK(bench.the<JobEnded>().state == JobEndState::canceled);
  }
  CHECK_THAT(bench.the<JobEnded>().reason, ContainsSubstring("outputs of h03 were not copied"));
}

TEST_CASE("an attempt that cannot spare a node out of reach is as patient as a fixed one") {
  ElasticBench bench(two_to_four(), 2);
  bench.unlink(2);
  bench.pass(Milliseconds{29'999});
  CHECK(bench.is_in<Running>());
  bench.pass(Milliseconds{1});
  REQUIRE(bench.is_in<Stopping>());
  CHECK(bench.last<StopBegun>()->reason == StopReason::node_lost);
}

TEST_CASE("a node that is unknown who takes part is left") {
  ElasticBench bench(two_to_four(), 2);
  bench.come(3);
  bench.link(4);
  bench.obey();
  bench.ready(4);
  const JobId job{"train"};
  bench.observe(MembersTold{job, bench.attempt().id, NodeId{"h02"}, 2, "an old error"});
  CHECK(bench.epoch() == 3);
  bench.observe(MembersTold{job, bench.attempt().id, NodeId{"h02"}, 3, "disk full"});
  CHECK(bench.epoch() == 4);
  CHECK(bench.members() == std::vector<int>{0, 2, 3});
  CHECK_THAT(bench.held(2)->departure->why.sentence, ContainsSubstring("disk full"));
  bench.observe(MembersTold{job, bench.attempt().id, NodeId{"h02"}, 4, "disk full"});
  CHECK(bench.owes<StopWork>(2));
}

TEST_CASE("members that were never decided cannot have been told") {
  ElasticBench bench(two_to_four(), 2);
  bench.observe(MembersTold{JobId{"train"}, bench.attempt().id, NodeId{"h02"}, 9, ""});
  CHECK(bench.held(2)->membership.told == 1);
}

TEST_CASE("an attempt that must tell a node it cannot spare, and cannot, is stopped") {
  ElasticBench bench(a_job().elastic(2, 3), 3);
  bench.kill_rank(2);
  bench.observe(MembersTold{JobId{"train"}, bench.attempt().id, NodeId{"h02"}, 2, "disk full"});
  REQUIRE(bench.is_in<Stopping>());
  CHECK_THAT(bench.last<StopBegun>()->sentence, ContainsSubstring("disk full"));
}

TEST_CASE("several that leave at once are one change of the members") {
  ElasticBench bench(two_to_four(), 4);
  bench.drain(3, true, Seconds{60});
  bench.drain(4, true, Seconds{60});
  bench.pass(Seconds{60});
  CHECK(bench.epoch() == 2);
  CHECK(bench.last<MembersChanged>()->why == "without h03 and h04");
  CHECK(bench.members() == std::vector<int>{0, 1});
  CHECK(bench.held(3)->departure);
  CHECK(bench.held(4)->departure);
}

TEST_CASE("of nodes that are many some are named and the others counted") {
  std::vector<NodeId> nodes{{"h1"}};
  CHECK(names_text(nodes) == "h1");
  for (int i = 2; i <= 3; ++i) nodes.push_back({"h" + std::to_string(i)});
  CHECK(names_text(nodes) == "h1, h2 and h3");
  for (int i = 4; i <= 10; ++i) nodes.push_back({"h" + std::to_string(i)});
  CHECK(names_text(nodes) == "h1, h2, h3, h4, h5, h6, h7, h8 and 2 more");
}

TEST_CASE("a node that does not start its ranks is left while the others start") {
  ElasticBench bench(two_to_four(), 2);
  Bench other;
  other.link_all(4);
  other.submit(two_to_four());
  other.obey_until<Starting>();
  other.observe(NodeStarted{JobId{"train"}, other.attempt().id, NodeId{"h02"}, "no such file"});
  CHECK(other.attempt().members.epoch == 2);
  CHECK(other.is_in<Starting>());
  other.obey();
  CHECK(other.is_in<Running>());
  CHECK(is_released(other.attempt().nodes[1]));
}

TEST_CASE("the last node that others wait for at the start may be the one that is left") {
  Bench bench;
  bench.link_all(3);
  bench.submit(a_job().elastic(2, 3).of_cluster(3));
  bench.obey_until<Starting>();
  for (const char* node : {"h01", "h02"}) {
    bench.observe(NodeStarted{JobId{"train"}, bench.attempt().id, NodeId{node}, ""});
  }
  CHECK(bench.is_in<Starting>());
  bench.link(3, 2);
  CHECK(bench.is_in<Running>());
}

// ---- when they cannot be spared ---------------------------------------------------------------

TEST_CASE("below its least the attempt is stopped, and the next needs no more than the least") {
  ElasticBench bench(a_job().elastic(2, 3).of_cluster(3), 3);
  bench.kill_and_obey(2);
  bench.unlink(3);
  CHECK(bench.epoch() == 2);
  bench.kill_rank(1);
  REQUIRE(bench.is_in<Stopping>());
  CHECK(bench.last<StopBegun>()->reason == StopReason::rank_failed);
  bench.obey();
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.first_rank == RankId{1});  // what left before is another story
  CHECK(bench.count<RetryScheduled>() == 1);
  bench.obey_after(Seconds{600});
  CHECK(bench.is_in<Running>());
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h02"});
  CHECK(bench.epoch() == 1);
}

TEST_CASE(
    "two that fail at once and cannot both be spared stop the attempt with both as its cause") {
  ElasticBench bench(two_to_four(), 3);
  bench.link(2, 2);
  CHECK(bench.epoch() == 2);
  ElasticBench other(two_to_four(), 3);
  other.drain(2, true, Seconds{60});
  other.drain(3, true, Seconds{60});
  other.pass(Seconds{60});
  CHECK(other.epoch() == 1);
  CHECK(other.is_in<Stopping>());
}

TEST_CASE("one that fails goes, though another is out of reach for a moment") {
  ElasticBench bench(two_to_four(), 3);
  bench.unlink(3);
  bench.pass(Seconds{20});
  CHECK(bench.epoch() == 2);
  ElasticBench other(a_job().elastic(3, 4), 4);
  other.unlink(3);
  other.unlink(4);
  other.pass(Seconds{20});  // only one of them can be spared
  CHECK(other.epoch() == 1);
  other.kill_rank(1);
  CHECK(other.epoch() == 2);
  CHECK(other.members() == std::vector<int>{0, 2, 3});
  CHECK(other.is_in<Running>());
}

TEST_CASE("a rule that stops the job stops it, whoever could go on") {
  ElasticBench bench(two_to_four().rule(a_rule(Reaction::stop)), 4);
  bench.exit_rank(1, {7, 0});
  REQUIRE(bench.is_in<Stopping>());
  bench.obey();
  CHECK(bench.ended_with() == 7);
}

TEST_CASE("a rank that asks not to be started again stops the job") {
  ElasticBench bench(two_to_four(), 4);
  bench.exit_rank(1, {93, 0});
  REQUIRE(bench.is_in<Stopping>());
  bench.obey();
  CHECK(bench.ended_with() == 93);
}

TEST_CASE("what all have computed together is in doubt when the hardware of one is") {
  const std::string peer = "muster-train: ends because the hardware of rank 2 is in doubt";
  ElasticBench bench(two_to_four(), 4);
  bench.exit_rank(1, {3, 0}, {}, "train", peer);
  REQUIRE(bench.is_in<Stopping>());
  bench.exit_rank(2, {3, 0}, {}, "train", "muster-train: rank 2 on h03: hardware in doubt: odd");
  bench.exit_and_obey(0, {3, 0}, {}, "train", peer);
  REQUIRE(bench.last<AttemptEnded>());
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.failure_class == FailureClass::sdc);
  CHECK(cause.first_rank == RankId{2});
  CHECK(cause.first_node == ElasticBench::id(3));
}

TEST_CASE("nodes that left are charged to no budget") {
  ElasticBench bench(a_job().elastic(1, 4).restarts(0).reschedules(0), 4);
  bench.kill_and_obey(3);
  bench.kill_and_obey(2);
  bench.link(2, 2);
  bench.obey();
  CHECK(bench.is_in<Running>());
  CHECK(bench.count<RetryScheduled>() == 0);
}

// ---- what follows -----------------------------------------------------------------------------

TEST_CASE(
    "outputs of a node that left are collected again, and counted as left behind in the end") {
  ElasticBench bench(two_to_four(), 3);
  bench.kill_rank(1);
  bench.obey_once(2);
  bench.obey_once(2);
  REQUIRE(bench.owes<CollectWork>(2));
  const OutputsCollected failed{JobId{"train"}, bench.attempt().id, NodeId{"h02"}, "disk full"};
  bench.observe(failed);
  CHECK_FALSE(bench.owes<CollectWork>(2));
  bench.pass(Seconds{5});
  REQUIRE(bench.owes<CollectWork>(2));
  SECTION("it has room then") {
    bench.obey();
    CHECK(bench.last<NodeReleased>()->left_behind.empty());
  }
  SECTION("it never has") {
    for (int i = 0; i < 4; ++i) {
      bench.observe(failed);
      bench.pass(Seconds{30});
    }
    CHECK_THAT(bench.the<NodeReleased>().left_behind, ContainsSubstring("disk full"));
  }
  CHECK_FALSE(bench.owns(2));
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a node that was long in leaving has all the time to deliver") {
  JobSubmitted job = two_to_four();
  job.spec.muster.stop.grace = Seconds{3600};
  ElasticBench bench(job, 3);
  bench.drain(2, true, Seconds{0});
  bench.obey_once(2);
  REQUIRE(bench.owes<StopWork>(2));
  bench.pass(Seconds{1800});
  bench.link(2, 2);
  REQUIRE(bench.held(2));
  CHECK(bench.owes<CollectWork>(2));
  bench.obey();
  CHECK(bench.the<NodeReleased>().left_behind.empty());
}

TEST_CASE("a node that left stays the job's when its processes do not die") {
  ElasticBench bench(two_to_four(), 3);
  bench.kill_rank(1);
  bench.obey_once(2);
  const AttemptId attempt = bench.attempt().id;
  bench.observe(NodeClean{JobId{"train"}, attempt, NodeId{"h02"}, {}, {"python (pid 7)"}});
  bench.pass(Seconds{200});
  CHECK(bench.count<NodeReleased>() == 1);
  REQUIRE(bench.node(2).unclean);
  CHECK(bench.owns(2));
  CHECK(bench.owes<StopWork>(2));
  bench.observe(NodeClean{JobId{"train"}, attempt, NodeId{"h02"}, {}, {}});
  CHECK_FALSE(bench.owns(2));
}

TEST_CASE("no attempt follows while a node that left has not proven that its ranks are gone") {
  ElasticBench bench(two_to_four(), 3);
  bench.kill_rank(1);
  bench.obey_once(2);
  bench.pass(Seconds{31 * 60});
  REQUIRE(bench.count<NodeReleased>() == 1);
  const bool dies = GENERATE(true, false);
  const AttemptId attempt = bench.attempt().id;
  if (dies) bench.observe(NodeClean{JobId{"train"}, attempt, NodeId{"h02"}, {}, {}});
  bench.kill_rank(0);
  for (const int node : {1, 3, 1}) {
    while (pending_work(bench.state, ElasticBench::id(node))) bench.obey_once(node);
  }
  CHECK(bench.the<AttemptEnded>().cause.unproven.size() == (dies ? 0U : 1U));
  CHECK(bench.is_live() == dies);
}

TEST_CASE("what a node broke is remembered against it though the job went on") {
  ElasticBench bench(two_to_four(), 3);
  SECTION("it was lost") {
    bench.link(2, 2, 2);
    bench.obey_once(2);
    CHECK(bench.count<NodeSuspected>() == 1);
    CHECK(bench.node(2).evidence.size() == 1);
  }
  SECTION("the program failed on it") {
    bench.exit_and_obey(1, {1, 0});
    CHECK(bench.count<NodeReleased>() == 1);
    CHECK(bench.count<NodeSuspected>() == 0);
  }
  SECTION("its rank ended because a peer had") {
    bench.exit_and_obey(1, {1, 0}, {}, "train", "ncclRemoteError: remote process exited");
    CHECK(bench.count<NodeReleased>() == 1);
    CHECK(bench.count<NodeSuspected>() == 0);
  }
  SECTION("it was asked to leave") {
    bench.notice(2, {});
    bench.obey();
    CHECK(bench.count<NodeReleased>() == 1);
    CHECK(bench.count<NodeSuspected>() == 0);
  }
}

TEST_CASE("an attempt that is stopped takes the nodes that are leaving and coming with it") {
  ElasticBench bench(two_to_four(), 3);
  bench.link(4);
  const bool started = GENERATE(true, false);
  if (started) {
    while (!bench.held(4)->started) bench.obey_once(4);
  }
  bench.kill_rank(1);
  bench.obey_once(2);
  bench.cancel();
  REQUIRE(bench.is_in<Stopping>());
  CHECK(bench.owes<StopWork>(1));
  CHECK(bench.owes<StopWork>(2));
  CHECK(bench.owes<StopWork>(4) == started);
  const auto work = pending_work(bench.state, NodeId{"h02"});
  CHECK_FALSE(std::get<StopWork>(work->work).leaves);
  bench.obey();
  CHECK_FALSE(bench.is_live());
  CHECK(bench.count<NodeReleased>() == 1);
  for (const auto& [id, node] : bench.state.nodes) CHECK_FALSE(node.owner);
}

TEST_CASE("a member that came when the others were done is not waited for") {
  ElasticBench bench(two_to_four(), 2);
  bench.link(3);
  bench.obey();
  bench.ready(3);
  bench.exit_rank(0, {});
  bench.exit_rank(1, {});
  CHECK(bench.is_in<Running>());  // it may have trained with them
  SECTION("it ends too") {
    bench.exit_rank(2, {});
    CHECK(bench.is_in<Stopping>());
  }
  SECTION("it waits for nobody") {
    bench.pass(Seconds{60});
    CHECK(bench.is_in<Stopping>());
  }
  CHECK(bench.last<StopBegun>()->reason == StopReason::finished);
}

TEST_CASE("a member that came too late is not waited for either when another leaves meanwhile") {
  ElasticBench bench(two_to_four(), 2);
  bench.link(3);
  bench.obey();
  bench.ready(3);
  bench.exit_rank(0, {});
  bench.exit_rank(1, {});
  bench.drain(1, true, Seconds{0});
  REQUIRE(bench.member_nodes() == std::vector<std::string>{"h02", "h03"});
  bench.pass(Seconds{60});
  REQUIRE(bench.is_in<Stopping>());
  CHECK(bench.last<StopBegun>()->reason == StopReason::finished);
}

TEST_CASE("a member that came late and trains on alone has not finished") {
  ElasticBench bench(a_job().elastic(1, 2), 1);
  bench.come(2);
  bench.drain(1, true, Seconds{0});
  REQUIRE(bench.member_nodes() == std::vector<std::string>{"h02"});
  bench.pass(Seconds{3600});
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a stall that was told ends with the members that it was about") {
  ElasticBench bench(two_to_four(), 3);
  StallSeen stall;
  stall.job = JobId{"train"};
  stall.attempt = bench.attempt().id;
  stall.stall = StallKind::suspect;
  bench.observe(stall);
  REQUIRE(bench.attempt().stall);
  bench.kill_rank(1);
  CHECK_FALSE(bench.attempt().stall);
}

TEST_CASE("after a controller that died anywhere on the way the job still ends well") {
  ElasticBench story(two_to_four(), 2);
  story.come(3);
  story.kill_and_obey(1);
  story.link(4);
  story.obey();
  story.ready(4);
  story.obey();
  story.link(2, 2);
  story.obey();
  story.unlink(3);
  story.pass(Seconds{200});
  story.link(3);
  story.obey();
  story.end_members();
  story.obey();
  REQUIRE_FALSE(story.is_live());
  CHECK(replay(story.journal).disagreements.empty());
  for (std::size_t length = 3; length + 1 < story.journal.size(); ++length) {
    INFO("after " << length << " records");
    Bench again;
    for (std::size_t i = 0; i < length; ++i) again.relive(story.journal[i]);
    if (!again.is_live()) continue;
    again.settle();
    for (int node = 1; node <= 4; ++node) again.link(node, node == 2 ? 2 : 1);
    again.obey();
    for (int i = 0; i < 20 && again.is_live(); ++i) {
      again.obey_after(Seconds{20});
      if (!again.is_in<Running>()) continue;
      const auto ranks = again.attempt().members.ranks;
      for (const RankId& rank : ranks) {
        if (again.is_in<Running>()) again.exit_rank(static_cast<int>(rank.value), {});
      }
      again.obey();
    }
    CHECK_FALSE(again.is_live());
  }
}
