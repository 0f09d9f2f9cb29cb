// What `plan` works out of a job and a target.
#include "cli/job/plan.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

namespace muster {
namespace {

JobSpec a_spec(int least, int count, int most) {
  JobSpec spec;
  spec.distribution.type = DistributionType::pytorch;
  spec.distribution.processes_per_node = 2;
  spec.instance_count = count;
  spec.muster.nodes_min = least;
  spec.muster.nodes_max = most;
  return spec;
}

JobPlan plan_of(const JobSpec& spec, int nodes, const UnavailableNodes& unavailable = {}) {
  ComputeTarget target;
  target.name = "lab";
  for (int i = 1; i <= nodes; ++i) {
    target.nodes.emplace_back();
    target.nodes.back().id = NodeId{"n" + std::to_string(i)};
  }
  auto plan = make_plan(spec, target, unavailable);
  REQUIRE(plan);
  return *plan;
}

TEST_CASE("a job with a fixed number of nodes is planned for these") {
  const JobPlan plan = plan_of(a_spec(2, 2, 2), 5);
  CHECK(plan.placed == 2);
  CHECK(plan.ranks.size() == 4);
  CHECK(rank_count(plan.spec, {}) == 4);
}

TEST_CASE("a job with between min and max nodes is planned for as many as there are") {
  CHECK(plan_of(a_spec(2, 2, 4), 3).placed == 3);
  CHECK(plan_of(a_spec(2, 2, 4), 3).ranks.size() == 6);
  CHECK(plan_of(a_spec(2, 3, 4), 9).placed == 4);
  JobSpec spec = a_spec(2, 3, 4);
  spec.muster.exclude_nodes = {"n1", "n2"};
  CHECK(plan_of(spec, 4).placed == 2);
  CHECK(plan_of(spec, 3).placed == 2);  // it waits: a second one is not there
}

TEST_CASE("nodes that are drained or down are planned without, and named with the reason") {
  const UnavailableNodes out{{NodeId{"n1"}, "n1 is drained: fan"}, {NodeId{"n9"}, "n9 is down"}};
  const JobPlan plan = plan_of(a_spec(2, 2, 4), 3, out);
  CHECK(plan.nodes == std::vector{NodeId{"n2"}, NodeId{"n3"}});
  CHECK(plan.unavailable == std::vector{NodeId{"n1"}});
  CHECK(plan.placed == 2);
  const Document document = plan_document(plan, out);
  CHECK(document["eligible_nodes"].dump() == R"(["n2","n3"])");
  CHECK(document["unavailable_nodes"].dump() == R"([{"node":"n1","why":"n1 is drained: fan"}])");
  CHECK(document["ranks"][0]["node"] == "n2");
}

TEST_CASE("how many ranks it has is known once its nodes are") {
  const JobSpec spec = a_spec(2, 2, 4);
  CHECK_FALSE(rank_count(spec, {}));
  CHECK(rank_count(spec, {2, 2, 2}) == 6);
}

TEST_CASE("the ranks of a node are those of all its places in an attempt") {
  const JobSpec spec = a_spec(2, 2, 3);
  AttemptSummary attempt;
  attempt.nodes = {NodeId{"n1"}, NodeId{"n2"}, NodeId{"n3"}};
  CHECK(ranks_of_node(spec, attempt, NodeId{"n3"}) == std::set<RankId>{RankId{4}, RankId{5}});
  attempt.nodes = {NodeId{"n1"}, NodeId{"n2"}, NodeId{"n3"}, NodeId{"n2"}};
  attempt.processes = {2, 1, 2, 1};
  CHECK(ranks_of_node(spec, attempt, NodeId{"n3"}) == std::set<RankId>{RankId{3}, RankId{4}});
  CHECK(ranks_of_node(spec, attempt, NodeId{"n2"}) == std::set<RankId>{RankId{2}, RankId{5}});
  CHECK(ranks_of_node(spec, attempt, NodeId{"n4"}).empty());
}

}  // namespace
}  // namespace muster
