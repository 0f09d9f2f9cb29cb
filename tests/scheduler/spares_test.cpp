#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

Names spares(const Bench& bench, const std::string& job = "train") {
  Names names;
  for (const AttemptNode& spare : bench.attempt(job).spares) names.push_back(spare.id.value);
  return names;
}

// The ranks on h02 die with their agent; the host stays and answers again.
void lose_agent_of_h02(Bench& bench) {
  bench.unlink(2);
  bench.link(2, 2);
}

int connections(const Bench& bench, const std::string& node) {
  int count = 0;
  for (const Record& record : bench.journal) {
    const auto* up = record_as<LinkUp>(record);
    count += up && up->node.value == node ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("spares are gathered with the gang, pass its gate and get the job's files") {
  Bench bench(a_job().on_nodes(2).spares(1));
  CHECK(bench.nodes() == Names{"h01", "h02"});
  CHECK(spares(bench) == Names{"h03"});
  CHECK(bench.attempt().ranks.size() == 2);
  CHECK(bench.attempt().spares[0].checked);
  CHECK(bench.attempt().spares[0].staged);
  CHECK(bench.node(3).owner == JobId{"train"});
  CHECK(!bench.node(4).owner);
}

TEST_CASE("too few spares are told and stop no job") {
  Bench bench(a_job().on_nodes(3).spares(3));
  CHECK(spares(bench) == Names{"h04"});
  CHECK_THAT(bench.last<AttemptPlaced>()->why, ContainsSubstring("only 1 of 3 spares is free"));
}

TEST_CASE("a spare that never answers delays nothing and is released") {
  Bench bench(a_job().on_nodes(2).spares(1).of_cluster(3), 2);
  bench.obey();
  CHECK(bench.is_in<Running>());
  bench.pass(Seconds{21});
  CHECK_THAT(bench.the<SpareDropped>().reason, ContainsSubstring("gave no answer"));
  CHECK(!bench.node(3).owner);
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a spare that has passed its gate takes the place of a node that did not") {
  Bench bench(a_job().on_nodes(2).spares(1), 4);
  for (const NodeWork& work : pending_work(bench.state)) {
    if (work.node.value == "h03") bench.obey(work);
  }
  bench.fail_check(2);
  CHECK(bench.nodes() == Names{"h01", "h03"});
  CHECK(bench.attempt().nodes[1].checked);  // and need not be asked again
  CHECK(spares(bench) == Names{"h04"});     // another is held instead
  CHECK(!bench.node(2).owner);
  bench.obey();
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a spare takes a lost node's place with its rank, the others keep theirs") {
  Bench bench(a_job().on_nodes(3).spares(1).of_cluster(5));
  bench.progress(20, sealed(20));
  const int before = bench.count<LinkUp>();
  lose_agent_of_h02(bench);
  bench.obey();
  bench.obey_after(Seconds{10});
  REQUIRE(bench.is_in<Running>());
  CHECK(bench.nodes() == Names{"h01", "h04", "h03"});
  CHECK(bench.last<AttemptPlaced>()->why == "spare h04 instead of h02");
  CHECK(bench.count<LinkUp>() == before + 1);  // h02's own
  CHECK(connections(bench, "h04") == 1);
  CHECK(spares(bench) == Names{"h05"});
  CHECK(bench.last<LaunchBegun>()->resume_from->step == 20);
}

TEST_CASE("a spare goes before a node that would be the first choice otherwise") {
  Bench bench;
  bench.drain(1);
  bench.start(a_job().on_nodes(2).spares(1));
  REQUIRE(spares(bench) == Names{"h04"});
  bench.drain(1, false);
  lose_agent_of_h02(bench);
  bench.obey();
  bench.pass(Seconds{10});
  CHECK(bench.nodes() == Names{"h04", "h03"});
  CHECK(spares(bench) == Names{"h01"});
}

TEST_CASE("a node that was lost is not its job's next spare") {
  Bench bench(a_job().on_nodes(2).spares(1).of_cluster(3));
  bench.progress(20, sealed(20));
  lose_agent_of_h02(bench);
  bench.obey();
  bench.obey_after(Seconds{10});
  CHECK(bench.nodes() == Names{"h01", "h03"});
  CHECK(spares(bench).empty());
}

TEST_CASE("with a spare at hand a lost node is waited for 20 seconds, without one 30") {
  const bool has_spare = GENERATE(true, false);
  Bench bench(a_job().on_nodes(2).spares(has_spare ? 1 : 0));
  bench.progress(5);
  bench.unlink(2);
  bench.pass(Seconds{19});
  CHECK(bench.is_in<Running>());
  bench.pass(Seconds{2});
  CHECK(bench.is_in<Stopping>() == has_spare);
  bench.pass(Seconds{10});
  CHECK(bench.is_in<Stopping>());
}

TEST_CASE("while its steps advance a run that misses a node is left alone for 30 seconds") {
  Bench bench(a_job().on_nodes(2).spares(1));
  bench.progress(5);
  bench.unlink(2);
  bench.pass(Seconds{8});
  bench.progress(6);
  bench.pass(Seconds{19});
  CHECK(bench.is_in<Running>());
  SECTION("they stop") {
    bench.pass(Seconds{2});
  }
  SECTION("they go on") {
    bench.progress(7);
    bench.pass(Seconds{2});
    CHECK(bench.is_in<Running>());
    bench.pass(Seconds{2});
  }
  CHECK(bench.is_in<Stopping>());
}

TEST_CASE("a spare that is drained or lost is released and the run continues") {
  const bool drained = GENERATE(true, false);
  Bench bench(a_job().on_nodes(2).spares(1).of_cluster(drained ? 4 : 3));
  if (drained)
    bench.drain(3);
  else
    bench.unlink(3);
  bench.pass(Seconds{25});
  CHECK(bench.the<SpareDropped>().node == NodeId{"h03"});
  CHECK(bench.is_in<Running>());
  CHECK(spares(bench) == (drained ? Names{"h04"} : Names{}));
}

TEST_CASE("a spare whose files could not be put in place is released") {
  Bench bench(a_job().on_nodes(1).spares(1).of_cluster(2), 2);
  for (auto works = pending_work(bench.state); !works.empty(); works = pending_work(bench.state)) {
    const NodeWork& work = works.front();
    const bool stages = std::holds_alternative<StageWork>(work.work);
    if (stages && work.node.value == "h02") {
      bench.observe(NodeStaged{work.job, work.attempt, work.node, "disk full"});
    } else {
      bench.obey(work);
    }
  }
  CHECK(bench.the<SpareDropped>().reason == "h02 could not be prepared: disk full");
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a spare's new agent is asked everything again") {
  Bench bench(a_job().on_nodes(1).spares(1));
  bench.link(2, 2);
  CHECK(!bench.attempt().spares[0].checked);
  bench.obey();
  CHECK(bench.attempt().spares[0].staged);
}

TEST_CASE("between attempts nobody else gets a job's nodes and spares, whatever its priority") {
  Bench bench(a_job().on_nodes(2).spares(1).of_cluster(3));
  bench.exit_and_obey(0, {2, 0});  // the first restart is at once
  bench.progress(20, sealed(20, 2));
  bench.submit(a_job("urgent").on_nodes(1).of_cluster(3).priority(100));
  lose_agent_of_h02(bench);
  bench.obey();
  REQUIRE(std::holds_alternative<Backoff>(bench.job().phase));
  // What the job avoids is anybody's.
  CHECK(bench.nodes("urgent") == Names{"h02"});
  bench.submit(a_job("more").on_nodes(1).of_cluster(3).priority(100));
  CHECK(!active_attempt(bench.job("more")));
  bench.obey_after(Seconds{10});
  CHECK(bench.nodes() == Names{"h01", "h03"});
}

TEST_CASE("an attempt that is drained away is on its spare at once, before any job that waits") {
  Bench bench(a_job().on_nodes(2).spares(1).of_cluster(3));
  bench.submit(a_job("urgent").on_nodes(1).of_cluster(3).priority(100));
  bench.drain(2, true, Seconds{0});
  bench.obey();
  CHECK(bench.nodes() == Names{"h01", "h03"});
  CHECK(!active_attempt(bench.job("urgent")));
}

TEST_CASE("a spare is not held when a job waits for nodes") {
  Bench bench(a_job().on_nodes(1).spares(1).of_cluster(3));
  bench.submit(a_job("big").on_nodes(3).of_cluster(3));
  bench.drain(2);
  CHECK(bench.last<SpareDropped>()->node == NodeId{"h02"});
  CHECK(spares(bench).empty());
  CHECK(bench.count<SpareAdded>() == 0);
}

TEST_CASE("spares are given back with the last attempt, and with a gang that is given up") {
  Bench bench;
  SECTION("done") {
    bench.start(a_job().on_nodes(1).spares(2));
    bench.finish();
    CHECK(bench.last<JobEnded>()->exit_code == 0);
  }
  SECTION("given up") {
    bench.submit(a_job().on_nodes(2).spares(1).of_cluster(3));
    bench.link_all(3);
    bench.fail_check(3);
    bench.fail_check(2);
    CHECK(bench.last<PlacementAbandoned>());
  }
  for (const auto& [id, node] : bench.state.nodes) CHECK(!node.owner);
}
