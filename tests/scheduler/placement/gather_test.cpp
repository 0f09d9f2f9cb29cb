#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

TEST_CASE("a linked node that is not checked owes its check, an unlinked one nothing") {
  Bench bench(a_job().on_nodes(2).of_cluster(2), 0);
  CHECK(pending_work(bench.state).empty());
  CHECK(nodes_to_connect(bench.state).size() == 2);
  bench.link(1);
  const auto work = pending_work(bench.state);
  REQUIRE(work.size() == 1);
  CHECK(work[0].node == NodeId{"h01"});
  CHECK(std::holds_alternative<CheckWork>(work[0].work));
}

TEST_CASE("a node that fails its checks is replaced and keeps its index") {
  Bench bench(a_job().on_nodes(2), 4);
  bench.fail_check(1);
  CHECK(bench.nodes() == Names{"h03", "h02"});
  CHECK_THAT(bench.last<NodeReplaced>()->reason, ContainsSubstring("found 7 GPUs, wanted 8"));
  bench.obey();
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a node that does not answer for 20 s is replaced") {
  Bench bench(a_job().on_nodes(1), 0);
  bench.unlink(1, LinkFailureKind::unreachable);
  bench.pass(Seconds{19});
  CHECK(bench.nodes() == Names{"h01"});
  bench.pass(Seconds{2});
  CHECK(bench.nodes() == Names{"h02"});
}

TEST_CASE("a node that refuses our key is replaced at once") {
  Bench bench(a_job().on_nodes(1), 0);
  bench.unlink(1, LinkFailureKind::refused_key);
  CHECK(bench.nodes() == Names{"h02"});
}

TEST_CASE("a node drained while it is checked is replaced") {
  Bench bench(a_job().on_nodes(1), 0);
  bench.drain(1);
  CHECK(bench.nodes() == Names{"h02"});
}

TEST_CASE("without a replacement the gang is released and tried again") {
  Bench bench(a_job().on_nodes(4), 4);
  bench.fail_check(2);
  CHECK_THAT(bench.the<PlacementAbandoned>().reason, ContainsSubstring("h02 failed"));
  CHECK(!bench.node(1).owner);
  bench.pass(Seconds{6});
  CHECK(bench.attempt().id == AttemptId{1});
  bench.obey();
  CHECK(bench.is_in<Running>());
}

namespace {

NodeChecked without_python(const Bench& bench, int node) {
  return {JobId{"train"},
          bench.attempt().id,
          NodeId{node_name(node)},
          {{"host.programs", "not found in PATH: python", true}},
          {}};
}

}  // namespace

TEST_CASE("a check that waiting does not mend ends the job when no node passes it") {
  Bench bench(a_job().on_nodes(1).of_cluster(2), 2);
  bench.observe(without_python(bench, 1));
  CHECK(bench.the<NodeReplaced>().unfitness == Unfitness::lasting);
  bench.observe(without_python(bench, 2));
  CHECK(bench.ended_with() == 91);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("h01 failed its start checks"));
}

TEST_CASE("a check that waiting does not mend leaves hope for a node that is busy or drained") {
  Bench bench;
  SECTION("busy") {
    bench.start(a_job("other").on_nodes(1).of_cluster(2));
  }
  SECTION("drained") {
    bench.drain(1);
  }
  bench.submit(a_job().on_nodes(1).of_cluster(2));
  bench.link(2);
  REQUIRE(bench.nodes() == Names{"h02"});
  bench.observe(without_python(bench, 2));
  CHECK(bench.is_live());
}

TEST_CASE("a node whose other fault may pass is waited for, whatever the first one lacked") {
  Bench bench(a_job().on_nodes(1).of_cluster(2), 2);
  bench.observe(without_python(bench, 1));
  bench.fail_check(2);
  CHECK(bench.is_live());
}

TEST_CASE("an agent that starts anew while nodes are checked is asked again") {
  Bench bench(a_job().on_nodes(2), 0);
  bench.link(1);
  bench.obey();
  REQUIRE(bench.attempt().nodes[0].checked);
  bench.link(1, 2, 2);
  const auto work = pending_work(bench.state, NodeId{"h01"});
  REQUIRE(work);
  CHECK(std::holds_alternative<CheckWork>(work->work));
}

TEST_CASE("a gang that stays unhealthy for muster.nodes.wait ends with 91") {
  Bench bench(a_job().on_nodes(4).nodes_wait(60), 4);
  for (int i = 0; i < 100 && bench.is_live(); ++i) {
    if (bench.is_in<Gathering>()) bench.fail_check(3);
    bench.pass(Seconds{1});
  }
  CHECK(bench.ended_with() == 91);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("gpu_count"));
}

TEST_CASE("waiting for a busy node in between does not begin muster.nodes.wait anew") {
  Bench bench(a_job().on_nodes(4).nodes_wait(60), 4);
  bench.pass(Seconds{40});
  bench.fail_check(3);
  REQUIRE(!active_attempt(bench.job()));
  bench.drain(1);
  bench.pass(Seconds{1000});
  REQUIRE(bench.last<JobPending>());
  bench.drain(1, false);
  REQUIRE(bench.is_in<Gathering>());
  bench.fail_check(3);
  REQUIRE(bench.is_live());
  for (int i = 0; i < 30 && bench.is_live(); ++i) {
    if (bench.is_in<Gathering>()) bench.fail_check(3);
    bench.pass(Seconds{1});
  }
  CHECK(!bench.is_live());
}

TEST_CASE("a gang that stays unreachable for muster.nodes.wait ends with 92") {
  Bench bench(a_job().on_nodes(2).of_cluster(2).nodes_wait(60), 0);
  bench.link(1);
  bench.unlink(2, LinkFailureKind::unreachable);
  bench.pass(Seconds{59});
  CHECK(bench.is_live());
  bench.pass(Seconds{120});
  CHECK(bench.ended_with() == 92);
}

TEST_CASE("a job ends at once when waiting cannot mend its nodes") {
  Bench bench(a_job().on_nodes(2).of_cluster(2), 0);
  bench.unlink(2, LinkFailureKind::changed_host_key);
  CHECK(bench.ended_with() == 92);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("h02 cannot be reached"));
}

TEST_CASE("a new job tries a node again whose key was refused before") {
  Bench bench(a_job("old").on_nodes(1).of_cluster(1), 0);
  bench.unlink(1, LinkFailureKind::refused_key);
  REQUIRE(!bench.is_live("old"));
  bench.pass(Seconds{60});
  bench.submit(a_job("new").on_nodes(1).of_cluster(1));
  bench.link(1);
  bench.obey();
  CHECK(bench.is_in<Running>("new"));
}

TEST_CASE("late checks of an abandoned placement do not count") {
  Bench bench(a_job().on_nodes(4), 4);
  bench.fail_check(2);
  bench.pass(Seconds{6});
  bench.observe(NodeChecked{JobId{"train"}, AttemptId{0}, NodeId{"h01"}, {{"x", "late"}}, {}});
  CHECK(bench.is_in<Gathering>());
  CHECK(!bench.attempt().nodes[0].checked);
}

TEST_CASE("a node that gives no answer is told within 2 s, and keeps its place as it may be slow") {
  Bench bench;
  bench.observe(a_job().on_nodes(2));
  bench.link(2);
  bench.pass(Milliseconds{1999});
  CHECK(!bench.last<AnswersAwaited>());
  bench.pass(Milliseconds{1});
  CHECK(bench.the<AnswersAwaited>().sentence ==
        "h01 has not answered for 2 s and may only be slow; waits 20 s for an answer, "
        "h03 and h04 are asked as well");
  CHECK(nodes_to_connect(bench.state).size() == 4);
  bench.pass(Seconds{10});
  CHECK(bench.count<AnswersAwaited>() == 1);
  CHECK(bench.nodes() == Names{"h01", "h02"});
  bench.link(1);
  bench.obey();
  CHECK(bench.is_in<Running>());
  CHECK(nodes_to_connect(bench.state).size() == 2);
}

TEST_CASE("a node that cannot be reached gives way at once to one that answers") {
  Bench bench(a_job().on_nodes(2), 0);
  bench.link(2);
  bench.unlink(1, LinkFailureKind::unreachable);
  CHECK(bench.nodes() == Names{"h01", "h02"});
  CHECK(nodes_to_connect(bench.state).size() == 4);
  bench.link(4);
  CHECK(bench.nodes() == Names{"h04", "h02"});
  CHECK_THAT(bench.last<NodeReplaced>()->reason, ContainsSubstring("h01 cannot be reached"));
  bench.obey();
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a link that broke while nodes were gathered is no reason to take another node") {
  Bench bench(a_job().on_nodes(1), 2);
  bench.unlink(1, LinkFailureKind::lost);
  CHECK(bench.nodes() == Names{"h01"});
}

TEST_CASE("what was known of a node before it was asked is no reason to take another") {
  Bench bench(a_job("old").on_nodes(1).of_cluster(2), 0);
  bench.unlink(1, LinkFailureKind::unreachable);
  bench.unlink(2, LinkFailureKind::unreachable);
  bench.cancel("old");
  bench.pass(Seconds{60});
  bench.submit(a_job("new").on_nodes(1).of_cluster(2));
  CHECK(bench.nodes("new") == Names{"h01"});
  bench.pass(Seconds{3});
  CHECK(bench.nodes("new") == Names{"h01"});
  CHECK_THAT(bench.the<AnswersAwaited>().sentence, ContainsSubstring("h01 cannot be reached"));
  bench.link(2);
  CHECK(bench.nodes("new") == Names{"h01"});
  bench.unlink(1, LinkFailureKind::unreachable);  // asked, and not there
  CHECK(bench.nodes("new") == Names{"h02"});
}

TEST_CASE("with a large target only some further nodes are asked, not all of them") {
  Bench bench(a_job().on_nodes(2).of_cluster(40), 0);
  bench.unlink(1, LinkFailureKind::unreachable);
  CHECK(nodes_to_connect(bench.state).size() == 14);
}

TEST_CASE("hosts are asked all at once before a job is placed, and those that answer are taken") {
  Bench bench;
  bench.observe(a_job().on_nodes(2).of_cluster(40));
  CHECK(!bench.last<AttemptPlaced>());
  CHECK(nodes_to_connect(bench.state).size() == 10);
  bench.link(2);
  SECTION("one that refuses is passed over at once") {
    bench.unlink(1, LinkFailureKind::refused_key);
    bench.link(3);
    CHECK(bench.nodes() == Names{"h02", "h03"});
    CHECK_THAT(bench.last<AttemptPlaced>()->why,
               ContainsSubstring("first free nodes of lab that answer; h01 "));
    CHECK_THAT(bench.last<AttemptPlaced>()->why, !ContainsSubstring("h04"));
  }
  SECTION("one that cannot be reached is too") {
    bench.link(3);
    bench.unlink(1, LinkFailureKind::unreachable);
    CHECK(bench.nodes() == Names{"h02", "h03"});
  }
  SECTION("one that is silent is passed over after 2 s, and that is told") {
    bench.link(3);
    bench.pass(Milliseconds{1999});
    CHECK(!bench.last<AttemptPlaced>());
    bench.pass(Milliseconds{1});
    CHECK(bench.nodes() == Names{"h02", "h03"});
    CHECK_THAT(bench.last<AttemptPlaced>()->why,
               ContainsSubstring("h01 has not answered for 2 s and may only be slow"));
  }
  SECTION("the first of the target are taken where all answer") {
    bench.link(3);
    bench.link(1);
    CHECK(bench.nodes() == Names{"h01", "h02"});
    CHECK(bench.last<AttemptPlaced>()->why == "first free nodes of lab");
    CHECK(nodes_to_connect(bench.state).size() == 2);
  }
  CHECK(bench.count<HostsAsked>() == 1);
}

TEST_CASE("hosts that did not answer an earlier job are asked anew before the next is placed") {
  Bench bench(a_job("old").on_nodes(1).of_cluster(3), 0);
  for (const int host : {1, 2, 3}) bench.unlink(host, LinkFailureKind::unreachable);
  bench.cancel("old");
  bench.pass(Seconds{60});
  REQUIRE(!bench.is_live("old"));
  bench.observe(a_job("new").on_nodes(2).of_cluster(3));
  CHECK(bench.the<HostsAsked>().job == JobId{"new"});
  CHECK(!active_attempt(bench.job("new")));
  bench.link(2);
  bench.link(3);
  CHECK(bench.nodes("new") == Names{"h02", "h03"});
}

TEST_CASE("nobody is asked before where there is no choice, or where the best are there already") {
  Bench bench;
  SECTION("no choice") {
    bench.observe(a_job().on_nodes(2).of_cluster(2));
  }
  SECTION("there already") {
    bench.link_all(2);
    bench.observe(a_job().on_nodes(2).of_cluster(40));
  }
  CHECK(bench.nodes() == Names{"h01", "h02"});
  CHECK(bench.count<HostsAsked>() == 0);
}

TEST_CASE("hosts that are requested one job are not given to the next meanwhile") {
  Bench bench;
  bench.observe(a_job("one").on_nodes(1).of_cluster(3));
  bench.observe(a_job("two").on_nodes(1).of_cluster(3));
  bench.link_all(3);
  CHECK(bench.nodes("one") == Names{"h01"});
  CHECK(bench.nodes("two") == Names{"h02"});
}

TEST_CASE("a job ends when the nodes that can ever serve are too few, whatever the others say") {
  Bench bench(a_job().on_nodes(2).of_cluster(2), 0);
  bench.link(1);
  bench.unlink(2, LinkFailureKind::unreachable);
  bench.observe(without_python(bench, 1));
  CHECK(bench.ended_with() == 91);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("not found in PATH: python"));
}

TEST_CASE("the same vain tries are told once, with their number") {
  Bench bench(a_job().on_nodes(2).of_cluster(2).nodes_wait(120), 0);
  bench.link(1);
  bench.unlink(2, LinkFailureKind::unreachable);
  bench.pass(Seconds{300});
  REQUIRE(!bench.is_live());
  const int tries = bench.count<PlacementAbandoned>();
  REQUIRE(tries > 2);
  CHECK(bench.count<AnswersAwaited>() == 1);
  const std::string told = bench.story();
  const auto times = [&](const std::string& word) {
    int n = 0;
    for (auto at = told.find(word); at != std::string::npos; at = told.find(word, at + 1)) ++n;
    return n;
  };
  CHECK(times("given up before it started") == 1);
  CHECK(times("allocated") == 1);
  CHECK_THAT(told, ContainsSubstring("and so on, " + std::to_string(tries) + " tries in "));
  CHECK_THAT(bench.last<JobEnded>()->reason,
             ContainsSubstring("and " + std::to_string(tries) + " tries: "));
}

TEST_CASE("a try that fails for another reason is told, and so is one that succeeds") {
  Bench bench(a_job().on_nodes(2).of_cluster(2), 0);
  bench.link(1);
  bench.unlink(2, LinkFailureKind::unreachable);
  bench.pass(Seconds{30});
  bench.link(2);
  bench.pass(Seconds{30});
  bench.fail_check(1);
  bench.obey_after(Seconds{30});
  REQUIRE(bench.is_in<Running>());
  const std::string told = bench.story();
  CHECK_THAT(told, ContainsSubstring("h02 cannot be reached") &&
                       ContainsSubstring("h01 failed its start checks") &&
                       ContainsSubstring("all nodes healthy"));
}
