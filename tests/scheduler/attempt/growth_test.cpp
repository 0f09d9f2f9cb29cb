// How an elastic job starts, and how nodes come to it while it runs.
#include "scheduler/explain/summary.h"
#include "scheduler/state/membership.h"
#include "tests/scheduler/elastic_bench.h"

using namespace muster;
using namespace muster::test;

namespace {

std::vector<int> numbers(int from, int to) {
  std::vector<int> all;
  for (int i = from; i <= to; ++i) all.push_back(i);
  return all;
}

}  // namespace

// ---- the start --------------------------------------------------------------------------------

TEST_CASE("an elastic job starts on as many nodes as are free, up to its most") {
  ElasticBench bench(a_job().elastic(1, 3).ranks_per_node(2), 4);
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h02", "h03"});
  CHECK(bench.epoch() == 1);
  CHECK(bench.members() == numbers(0, 5));
  CHECK(bench.attempt().processes == std::vector<int>{2, 2, 2});
  CHECK(bench.count<MembersChanged>() == 1);
  for (const AttemptNode& node : bench.attempt().nodes) CHECK(node.membership.told == 1);
  CHECK(pending_work(bench.state).empty());
  CHECK_FALSE(bench.node(4).owner);
}

TEST_CASE("the members are named in the turn of the launch, before any rank is started") {
  ElasticBench bench(two_to_four(), 3);
  for (std::size_t i = 0; i + 1 < bench.journal.size(); ++i) {
    if (!record_as<LaunchBegun>(bench.journal[i])) continue;
    CHECK(record_as<MembersChanged>(bench.journal[i + 1]));
    CHECK(bench.journal[i].at == bench.journal[i + 1].at);
  }
}

TEST_CASE("no rank of an elastic attempt is started by a journal that ends before its members") {
  const ElasticBench whole(two_to_four(), 2);
  State state;
  for (const Record& record : whole.journal) {
    if (record_as<MembersChanged>(record)) break;
    apply(state, record);
  }
  CHECK(pending_work(state).empty());
  const auto decisions = decide(state, whole.now);
  REQUIRE(decisions.size() == 1);
  CHECK(std::holds_alternative<MembersChanged>(decisions.front()));
}

TEST_CASE("hosts that are down are no reason to wait, and are not started on") {
  const ElasticBench bench(two_to_four(), 2);
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h02"});
}

TEST_CASE("for answers of as many hosts as it may have it waits 2 s, not for the least alone") {
  Bench bench;
  for (const int host : {1, 2, 3}) bench.unlink(host);  // before
  bench.pass(Seconds{1});
  bench.observe(a_job().elastic(1, 2).of_cluster(3));
  bench.pass(Milliseconds{200});
  bench.link(1);
  CHECK(!bench.last<AttemptPlaced>());
  SECTION("another answers") {
    bench.pass(Seconds{1});
    bench.link(3);
    CHECK(bench.nodes() == std::vector<std::string>{"h01", "h03"});
  }
  SECTION("none does") {
    bench.pass(Milliseconds{1799});
    CHECK(!bench.last<AttemptPlaced>());
    bench.pass(Milliseconds{1});
    CHECK(bench.nodes() == std::vector<std::string>{"h01"});
  }
}

TEST_CASE("fewer than the least that it needs are waited for") {
  Bench bench(a_job("other").on_nodes(3), 0);
  bench.submit(two_to_four());
  CHECK_THAT(std::get<Queued>(bench.job().phase).reason,
             ContainsSubstring("waits for 1 of 2 nodes"));
}

TEST_CASE("a job whose least equals its most is no elastic one") {
  Bench bench(a_job().elastic(2, 2));
  CHECK(bench.count<MembersChanged>() == 0);
  CHECK(bench.attempt().processes.empty());
  CHECK(bench.attempt().members.epoch == 0);
}

TEST_CASE("nodes hold a port for each rank, and the first one more to meet at") {
  const ElasticBench bench(two_to_four().ranks_per_node(2), 3);
  CHECK(bench.attempt().nodes[0].ports->ports.size() == 3);
  CHECK(bench.attempt().nodes[1].ports->ports.size() == 2);
}

TEST_CASE(
    "a node that fails its gate is let go when enough others pass, and ranks are dealt anew") {
  Bench bench(two_to_four(), 4);
  bench.fail_check(2);
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h03", "h04"});
  CHECK(bench.attempt().ranks.size() == 3);
  CHECK_FALSE(bench.node(2).owner);
  bench.obey();
  CHECK(bench.is_in<Running>());
  bench.pass(Seconds{60});
  CHECK(bench.count<NodeAdded>() == 0);
}

TEST_CASE("a node that is let go at the gate is nobody's at once, also after a crash in between") {
  Bench bench(two_to_four(), 4);
  State state = bench.state;
  const NodeId h02{"h02"};
  apply(state, {bench.now, Observation{NodeChecked{
                               {"train"}, bench.attempt().id, h02, {{"gpu_count", "none"}}, {}}}});
  REQUIRE(state.nodes.at(h02).owner);
  const std::vector<Decision> decided = decide(state, bench.now);
  REQUIRE(std::holds_alternative<NodeLeaving>(decided.front()));
  State crashed = state;
  for (const Decision& decision : decided) apply(state, {bench.now, decision});
  CHECK_FALSE(state.nodes.at(h02).owner);
  apply(crashed, {bench.now, decided.front()});
  CHECK(crashed.nodes.at(h02).owner);
  for (const Decision& decision : decide(crashed, bench.now)) apply(crashed, {bench.now, decision});
  CHECK_FALSE(crashed.nodes.at(h02).owner);
}

TEST_CASE("a node that fails its gate is replaced rather than let go") {
  Bench bench(a_job().elastic(1, 3), 4);
  bench.fail_check(2);
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h04", "h03"});
  CHECK(bench.count<NodeReleased>() == 0);
}

TEST_CASE("a gang below its least is released like any other") {
  Bench bench(a_job().elastic(3, 4), 4);
  bench.fail_check(2);
  CHECK(bench.nodes().size() == 3);
  bench.fail_check(3);
  CHECK(bench.count<PlacementAbandoned>() == 1);
}

// ---- taking -----------------------------------------------------------------------------------

TEST_CASE("a host that comes up is prepared beside the run, and let in when its ranks wait") {
  ElasticBench bench(two_to_four(), 2);
  bench.link(3);
  REQUIRE(bench.held(3));
  CHECK(bench.owns(3));
  CHECK(bench.owes<CheckWork>(3));
  bench.obey_once(3);
  CHECK(bench.owes<StageWork>(3));
  bench.obey_once(3);
  CHECK(bench.owes<ReserveWork>(3));
  CHECK(bench.count<JoinBegun>() == 0);
  bench.obey_once(3);
  CHECK(bench.count<JoinBegun>() == 1);
  CHECK(bench.attempt().processes == std::vector<int>{1, 1, 1});
  CHECK(bench.owes<StartWork>(3));
  CHECK(pending_work(bench.state).size() == 1);  // nobody else has anything to do
  bench.obey_once(3);
  CHECK(pending_work(bench.state).empty());
  CHECK(bench.epoch() == 1);
  bench.ready(3);
  CHECK(bench.epoch() == 2);
  CHECK(bench.members() == numbers(0, 2));
  for (const int node : {1, 2, 3}) CHECK(bench.owes<MembersWork>(node));
  bench.obey();
  for (const AttemptNode& node : bench.attempt().nodes) CHECK(node.membership.told == 2);
  CHECK(bench.is_in<Running>());
}

TEST_CASE("ranks are numbered in the order in which nodes start them, not in which they come") {
  ElasticBench bench(two_to_four().ranks_per_node(2), 2);
  bench.link(3);
  bench.link(4);
  while (!bench.held(4)->started) bench.obey_once(4);
  CHECK(bench.nodes() == std::vector<std::string>{"h01", "h02", "h04", "h03"});
  const auto on_h04 = ranks_on(bench.attempt(), NodeId{"h04"});
  REQUIRE(on_h04.size() == 2);
  CHECK(on_h04[0].id.value == 4);
  CHECK(on_h04[1].local_rank == 1);
  CHECK(ranks_on(bench.attempt(), NodeId{"h03"}).empty());
  bench.obey();
  CHECK(ranks_on(bench.attempt(), NodeId{"h03"})[0].id.value == 6);
  bench.ready(3);
  bench.ready(4);
  CHECK(bench.member_nodes().size() == 4);
  CHECK(bench.count<MembersChanged>() == 2);
  CHECK(bench.last<MembersChanged>()->why == "h04 and h03 join");
}

TEST_CASE("a node that is ready waits ten seconds for others that come with it, no longer") {
  ElasticBench bench(two_to_four(), 2);
  bench.link(3);
  bench.link(4);
  while (!bench.held(3)->started) bench.obey_once(3);
  bench.ready(3);
  bench.pass(Milliseconds{9'999});
  CHECK(bench.epoch() == 1);
  bench.pass(Milliseconds{1});
  CHECK(bench.epoch() == 2);
  CHECK(bench.members() == numbers(0, 2));
}

TEST_CASE("it never has more nodes than its most") {
  ElasticBench bench(a_job().elastic(1, 2), 2);
  bench.link(3);
  CHECK(bench.count<NodeAdded>() == 0);
  CHECK_FALSE(nodes_to_connect(bench.state).contains(NodeId{"h04"}));
}

TEST_CASE("while it has room the hosts that are not there are looked for") {
  ElasticBench bench(a_job().elastic(1, 3), 2);
  CHECK(nodes_to_connect(bench.state).contains(NodeId{"h03"}));
  CHECK(nodes_to_connect(bench.state).contains(NodeId{"h04"}));
  bench.drain(4);
  CHECK_FALSE(nodes_to_connect(bench.state).contains(NodeId{"h04"}));
  bench.come(3);
  CHECK_FALSE(nodes_to_connect(bench.state).contains(NodeId{"h04"}));
}

TEST_CASE("a fixed job takes no node that is free") {
  Bench bench(a_job().on_nodes(2));
  bench.pass(Seconds{100});
  CHECK(bench.count<NodeAdded>() == 0);
  CHECK(nodes_to_connect(bench.state).size() == 2);
}

TEST_CASE("who waits for the same target with no lower priority comes first") {
  for (const int priority : {-1, 0, 1}) {
    ElasticBench bench(two_to_four(), 2);
    bench.submit(a_job("wide").on_nodes(4).priority(priority));
    bench.link(3);
    CHECK(bench.count<NodeAdded>() == (priority < 0 ? 1 : 0));
  }
}

TEST_CASE("a node that another job restarts on is not taken") {
  Bench bench;
  bench.link_all(4);
  bench.submit(a_job("other").on_nodes(1).priority(-1));
  bench.submit(two_to_four());
  bench.obey();
  REQUIRE(bench.is_in<Running>());
  bench.exit_and_obey(0, {2, 0}, {}, "other");  // the first restart is at once
  bench.exit_and_obey(0, {1, 0}, {}, "other");
  REQUIRE(std::holds_alternative<Backoff>(bench.job("other").phase));
  CHECK_FALSE(bench.node(1).owner);
  CHECK(bench.count<NodeAdded>() == 0);
  bench.cancel("other");
  CHECK(bench.count<NodeAdded>() == 1);
}

TEST_CASE("a spare that is ready is taken before a node that is free") {
  ElasticBench bench(a_job().elastic(1, 2).spares(1), 4);
  REQUIRE(find_spare(bench.attempt(), NodeId{"h03"}));
  bench.kill_rank(1);
  CHECK(bench.held(3));
  CHECK_FALSE(find_spare(bench.attempt(), NodeId{"h03"}));
  CHECK_FALSE(bench.owes<CheckWork>(3));
  CHECK_FALSE(bench.owes<StageWork>(3));
  CHECK(bench.owes<ReserveWork>(3));
}

// ---- what goes wrong --------------------------------------------------------------------------

TEST_CASE("a node that cannot join is released, is not tried again, and the run continues") {
  ElasticBench bench(two_to_four(), 2);
  bench.link(3);
  const AttemptId attempt = bench.attempt().id;
  const NodeId node{"h03"};
  const JobId job{"train"};
  const auto obey_until = [&](auto is_there) {
    while (!is_there(*bench.held(3))) bench.obey_once(3);
  };
  bool was_started = true;
  SECTION("it fails its gate") {
    bench.fail_check(3);
    was_started = false;
  }
  SECTION("its files do not arrive") {
    bench.obey_once(3);
    bench.pass(Milliseconds{20 * 60'000});
    was_started = false;
  }
  SECTION("it cannot be prepared") {
    bench.obey_once(3);
    bench.observe(NodeStaged{job, attempt, node, "disk full"});
    was_started = false;
  }
  SECTION("it has no ports") {
    obey_until([](const AttemptNode& one) { return one.staged.has_value(); });
    bench.observe(PortsReserved{job, attempt, node, {}, "all in use"});
    was_started = false;
  }
  SECTION("it reserves none") {
    obey_until([](const AttemptNode& one) { return one.staged.has_value(); });
    bench.pass(Milliseconds{5 * 60'000});
    was_started = false;
  }
  SECTION("it is drained") {
    bench.drain(3);
    was_started = false;
  }
  SECTION("it goes away") {
    bench.unlink(3);
    bench.pass(Seconds{20});
    was_started = false;
  }
  SECTION("its ranks do not start") {
    obey_until([](const AttemptNode& one) { return one.join && one.join->begun; });
    bench.observe(NodeStarted{job, attempt, node, "no such file"});
  }
  SECTION("a rank ends") {
    obey_until([](const AttemptNode& one) { return one.started.has_value(); });
    bench.kill_rank(2);
  }
  SECTION("a rank ends well, but before the others let it in") {
    obey_until([](const AttemptNode& one) { return one.started.has_value(); });
    bench.exit_rank(2, {});
  }
  SECTION("it is not ready in time") {
    obey_until([](const AttemptNode& one) { return one.started.has_value(); });
    bench.pass(Milliseconds{10 * 60'000});
  }
  SECTION("it is told to leave") {
    obey_until([](const AttemptNode& one) { return one.started.has_value(); });
    bench.notice(3, Seconds{60});
  }
  if (was_started) {
    REQUIRE(bench.held(3)->departure);
    CHECK(bench.owns(3));
    CHECK(bench.owes<MembersWork>(3));  // a file without it: its ranks leave
    bench.obey();
  }
  CHECK_FALSE(bench.held(3));
  CHECK_FALSE(bench.owns(3));
  CHECK(bench.epoch() == 1);
  CHECK(bench.is_in<Running>());
  bench.drain(3, false);
  bench.link(3);
  bench.pass(Seconds{100});
  CHECK(bench.count<NodeAdded>() == 1);
}

TEST_CASE("another agent of a node that is being prepared begins anew") {
  ElasticBench bench(two_to_four(), 2);
  bench.link(3);
  while (!bench.held(3)->staged) bench.obey_once(3);
  bench.link(3, 2);
  CHECK(bench.owes<CheckWork>(3));
  bench.obey();
  bench.ready(3);
  CHECK(bench.epoch() == 2);
}

TEST_CASE("a node whose agent starts anew while it waits to join does not join") {
  ElasticBench bench(two_to_four(), 2);
  bench.link(3);
  bench.obey();
  bench.link(3, 2);
  CHECK(bench.attempt().nodes[2].departure);
  bench.obey();
  // Under the other agent it is another node, with other ranks.
  REQUIRE(bench.held(3));
  CHECK(bench.held(3)->started);
  bench.ready(3);
  CHECK(bench.members() == std::vector<int>{0, 1, 3});
}

TEST_CASE("readiness that is told again, late or by nobody changes nothing") {
  ElasticBench bench(two_to_four(), 2);
  bench.ready(1);
  bench.ready(3);
  CHECK(bench.epoch() == 1);
  bench.come(3);
  bench.ready(3);
  CHECK(bench.epoch() == 2);
}

TEST_CASE("nobody is taken or let in when the members are about to end") {
  ElasticBench bench(two_to_four(), 2);
  bench.link(3);
  bench.obey();
  bench.exit_rank(0, {});
  bench.ready(3);
  bench.link(4);
  CHECK(bench.epoch() == 1);
  CHECK(bench.count<NodeAdded>() == 1);
  bench.exit_rank(1, {});
  REQUIRE(bench.is_in<Stopping>());
  CHECK(bench.last<StopBegun>()->reason == StopReason::finished);
  CHECK(bench.owes<StopWork>(3));
  bench.obey();
  CHECK(bench.ended_with() == 0);
}

// ---- what people read -------------------------------------------------------------------------

TEST_CASE("explain and the summary tell who came, who went and who is left") {
  ElasticBench bench(two_to_four().ranks_per_node(2), 2);
  JobSummary summary = summarize(bench.journal);
  REQUIRE(summary.nodes);
  CHECK(summary.nodes->least == 2);
  CHECK(summary.nodes->most == 4);
  CHECK(summary.attempts.back().members.size() == 2);
  bench.come(3);
  bench.kill_and_obey(1);
  summary = summarize(bench.journal);
  const AttemptSummary& attempt = summary.attempts.back();
  CHECK(attempt.members == std::vector<NodeId>{{"h02"}, {"h03"}});
  CHECK(attempt.members_epoch == 3);
  CHECK(attempt.nodes == std::vector<NodeId>{{"h01"}, {"h02"}, {"h03"}});
  CHECK(attempt.processes == std::vector<int>{2, 2, 2});
  const std::string text = bench.story();
  CHECK_THAT(text, ContainsSubstring("wants 2 to 4 nodes of lab"));
  CHECK_THAT(text, ContainsSubstring("attempt 0: 4 ranks on 2 nodes"));
  CHECK_THAT(text, ContainsSubstring("attempt 0 takes h03 as well: it is free"));
  CHECK_THAT(text, ContainsSubstring("h03 starts 2 ranks to join attempt 0"));
  CHECK_THAT(text, ContainsSubstring("attempt 0 continues with 6 ranks: h03 joins"));
  CHECK_THAT(text, ContainsSubstring("attempt 0 continues with 4 ranks: without h01"));
  CHECK_THAT(text, ContainsSubstring("h01 leaves attempt 0 (rank_failed): rank 1 on h01 was"));
  CHECK_THAT(text, ContainsSubstring("h01 is released"));
}

TEST_CASE("a job of a rank for each GPU counts those of the node that comes") {
  Bench bench;
  bench.gpus = {{1, 2}, {2, 1}, {3, 3}};
  bench.unlink(3, LinkFailureKind::unreachable);
  bench.link(1);
  bench.link(2);
  bench.submit(a_job().elastic(2, 3).of_cluster(3).ranks_by_gpus());
  bench.obey();
  REQUIRE(bench.is_in<Running>());
  CHECK(bench.attempt().processes == std::vector<int>{2, 1});
  CHECK(bench.attempt().nodes[0].ports->ports.size() == 3);
  bench.link(3);
  bench.obey();
  CHECK(bench.attempt().processes == std::vector<int>{2, 1, 3});
  CHECK(bench.attempt().nodes[2].ports->ports.size() == 3);
  CHECK(bench.attempt().ranks.size() == 6);
}
