// GPUs decide which nodes a job may have and how many ranks it starts there.
#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

// How many ranks each node of the attempt has.
std::vector<int> ranks_by_node(const Bench& bench) {
  std::vector<int> counts;
  for (std::size_t i = 0; i < bench.attempt().nodes.size(); ++i) {
    counts.push_back(static_cast<int>(ranks_on(bench.attempt(), i).size()));
  }
  return counts;
}

// With so many GPUs on h01, h02, …
void give_gpus(Bench& bench, const std::vector<int>& gpus) {
  for (std::size_t i = 0; i < gpus.size(); ++i) bench.gpus[static_cast<int>(i) + 1] = gpus[i];
}

// The agent of h02 dies, and another takes its place.
void lose_agent_of_h02(Bench& bench) {
  bench.unlink(2);
  bench.link(2, 2, 2);
}

}  // namespace

TEST_CASE("every GPU gets a rank, on nodes that have different numbers of them") {
  Bench bench;
  give_gpus(bench, {2, 4, 1});
  bench.start(a_job().on_nodes(3).of_cluster(3).ranks_by_gpus());
  CHECK(ranks_by_node(bench) == std::vector<int>{2, 4, 1});
  CHECK(bench.last<LaunchBegun>()->processes == std::vector<int>{2, 4, 1});
  CHECK_THAT(bench.story(), ContainsSubstring("attempt 0: 7 ranks on 3 nodes"));
  bench.finish();
  CHECK(bench.last<JobEnded>()->exit_code == 0);
}

TEST_CASE("a job that asks for no GPUs does not look at them") {
  Bench bench;
  give_gpus(bench, {0, 4});
  bench.start(a_job().on_nodes(2).of_cluster(2).ranks_per_node(3));
  CHECK(ranks_by_node(bench) == std::vector<int>{3, 3});
  CHECK(bench.last<LaunchBegun>()->processes.empty());
}

TEST_CASE("a number of GPUs that no host has is not believed") {
  Bench many;
  give_gpus(many, {2'000'000'000});
  many.start(a_job().of_cluster(1).ranks_by_gpus());
  CHECK(ranks_by_node(many) == std::vector<int>{1024});
  Bench less_than_none;
  give_gpus(less_than_none, {-5});
  less_than_none.start(a_job().of_cluster(1));
  CHECK(ranks_by_node(less_than_none) == std::vector<int>{1});
}

TEST_CASE("a node without a GPU is replaced by one that has some") {
  Bench bench;
  give_gpus(bench, {2, 0, 2});
  bench.start(a_job().on_nodes(2).of_cluster(3).ranks_by_gpus());
  CHECK(bench.nodes() == Names{"h01", "h03"});
  CHECK(bench.last<NodeReplaced>()->reason == "h02 has no GPU");
  CHECK(bench.last<NodeReplaced>()->unfitness == Unfitness::lasting);
}

TEST_CASE("a node with fewer GPUs than muster.nodes.gpus is not fit, one with more is") {
  Bench bench;
  give_gpus(bench, {8, 2, 4});
  bench.start(a_job().on_nodes(2).of_cluster(3).gpus_per_node(4).ranks_per_node(4));
  CHECK(bench.nodes() == Names{"h01", "h03"});
  CHECK(bench.last<NodeReplaced>()->reason == "h02 has 2 GPUs, 4 are requested");
  CHECK(ranks_by_node(bench) == std::vector<int>{4, 4});
}

TEST_CASE("a job ends when its target has too few nodes with GPUs, and says which lack them") {
  Bench bench;
  give_gpus(bench, {1, 0});
  bench.submit(a_job().on_nodes(2).of_cluster(2).ranks_by_gpus());
  bench.link_all(2);
  bench.obey();
  CHECK(bench.the<JobEnded>().exit_code == 91);
  CHECK_THAT(bench.last<JobEnded>()->reason, ContainsSubstring("h02 has no GPU"));
}

TEST_CASE("a job waits for a busy node with GPUs, not for time to pass") {
  Bench bench;
  give_gpus(bench, {0, 2, 2});
  bench.start(a_job("first").on_nodes(1).of_cluster(3).ranks_by_gpus());
  REQUIRE(bench.nodes("first") == Names{"h02"});
  bench.submit(a_job().on_nodes(2).of_cluster(3).ranks_by_gpus());
  bench.link_all(3);
  bench.pass(Seconds{3600});
  REQUIRE(bench.is_live());
  CHECK_THAT(bench.last<JobPending>()->reason, ContainsSubstring("h02 is running job first"));
  CHECK_THAT(bench.last<JobPending>()->reason, ContainsSubstring("h01 has no GPU"));
  bench.finish("first");
  bench.obey();
  CHECK(bench.nodes() == Names{"h02", "h03"});
  CHECK(bench.is_in<Running>());
}

TEST_CASE("a node that lacked GPUs before the job came is asked again") {
  Bench bench;
  bench.link_all(1);
  bench.unlink(1);
  bench.pass(Seconds{10});
  bench.gpus[1] = 2;
  bench.start(a_job().on_nodes(1).of_cluster(1).ranks_by_gpus());
  CHECK(ranks_by_node(bench) == std::vector<int>{2});
}

TEST_CASE("a spare with another number of GPUs takes a lost node's place with its own ranks") {
  Bench bench;
  give_gpus(bench, {2, 2, 4});
  bench.start(a_job().on_nodes(2).of_cluster(3).spares(1).ranks_by_gpus());
  REQUIRE(ranks_by_node(bench) == std::vector<int>{2, 2});
  lose_agent_of_h02(bench);
  bench.obey();
  bench.obey_after(Seconds{10});
  REQUIRE(bench.is_in<Running>());
  CHECK(bench.nodes() == Names{"h01", "h03"});
  CHECK(ranks_by_node(bench) == std::vector<int>{2, 4});
  bench.finish();
  CHECK(bench.last<JobEnded>()->exit_code == 0);
}

TEST_CASE("a spare without a GPU is released") {
  Bench bench;
  give_gpus(bench, {2, 2, 0});
  bench.start(a_job().on_nodes(2).of_cluster(3).spares(1).ranks_by_gpus());
  CHECK(bench.attempt().spares.empty());
  CHECK(bench.last<SpareDropped>()->reason == "h03 has no GPU");
}

TEST_CASE("a node that comes back with other GPUs before the launch gets ranks for those") {
  Bench bench;
  give_gpus(bench, {2, 2});
  bench.submit(a_job().on_nodes(2).of_cluster(2).ranks_by_gpus());
  bench.link_all(2);
  for (const NodeWork& work : pending_work(bench.state)) bench.obey(work);
  REQUIRE(bench.is_in<Staging>());
  bench.gpus[2] = 1;
  lose_agent_of_h02(bench);
  bench.obey();
  CHECK(bench.is_in<Running>());
  CHECK(ranks_by_node(bench) == std::vector<int>{2, 1});
}

TEST_CASE("a node that comes back without GPUs before the launch ends the attempt") {
  Bench bench;
  give_gpus(bench, {2, 2});
  bench.submit(a_job().on_nodes(2).of_cluster(2).ranks_by_gpus());
  bench.link_all(2);
  for (const NodeWork& work : pending_work(bench.state)) bench.obey(work);
  REQUIRE(bench.is_in<Staging>());
  bench.gpus[2] = 0;
  lose_agent_of_h02(bench);
  bench.obey();
  CHECK(bench.the<StopBegun>().reason == StopReason::start_failed);
  CHECK(bench.last<StopBegun>()->sentence == "h02 has no GPU");
  CHECK(bench.count<LaunchBegun>() == 0);
}

TEST_CASE("a launch with other ranks than GPUs is a violation") {
  Bench bench;
  give_gpus(bench, {2});
  bench.start(a_job().on_nodes(1).of_cluster(1).ranks_by_gpus());
  std::vector<Record> journal = bench.journal;
  REQUIRE(violations(journal).empty());
  for (Record& record : journal) {
    if (auto* decision = std::get_if<Decision>(&record.what)) {
      if (auto* launch = std::get_if<LaunchBegun>(decision)) launch->processes = {3};
    }
  }
  const auto found = violations(journal);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0], ContainsSubstring("I5: the ranks are not as many as the GPUs"));
}
