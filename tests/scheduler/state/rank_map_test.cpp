#include "scheduler/state/rank_map.h"

#include "tests/catch.h"
#include "tests/scheduler/builders.h"

using namespace muster;
using namespace muster::test;

namespace {

Distribution distribution(DistributionType type, int per_node = 1) {
  Distribution value;
  value.type = type;
  value.processes_per_node = per_node;
  return value;
}

}  // namespace

TEST_CASE("ranks are dense by node") {
  const auto map = rank_map(distribution(DistributionType::pytorch, 4), 3);
  REQUIRE(map.size() == 12);
  for (int rank = 0; rank < 12; ++rank) {
    const RankPlace& place = map[static_cast<std::size_t>(rank)];
    CHECK(place.rank == RankId{rank});
    CHECK(place.node_index == rank / 4);
    CHECK(place.local_rank == rank % 4);
  }
}

TEST_CASE("nodes may have different numbers of ranks, which stay dense") {
  const auto map = rank_map(distribution(DistributionType::pytorch), 3, {2, 1, 3});
  REQUIRE(map.size() == 6);
  CHECK(ranks_on_node(map, 0) == 2);
  CHECK(ranks_on_node(map, 1) == 1);
  CHECK(ranks_on_node(map, 2) == 3);
  for (int rank = 0; rank < 6; ++rank) {
    CHECK(map[static_cast<std::size_t>(rank)].rank == RankId{rank});
    CHECK(map[static_cast<std::size_t>(rank)].role_index == rank);
  }
  CHECK(map[2].local_rank == 0);
  CHECK(map[5].local_rank == 2);
  CHECK(rank_map(distribution(DistributionType::pytorch, 4), 2, {}).size() == 8);
}

TEST_CASE("without a distribution there is one process on each node") {
  CHECK(rank_map(distribution(DistributionType::none, 8), 3).size() == 3);
}

TEST_CASE("tensorflow deals workers, then parameter servers, over the nodes") {
  Distribution tf = distribution(DistributionType::tensorflow);
  tf.worker_count = 3;
  tf.parameter_server_count = 1;
  const auto map = rank_map(tf, 2);
  REQUIRE(map.size() == 4);
  CHECK(ranks_on_node(map, 0) == 3);  // workers 0 and 2, server 0
  CHECK(ranks_on_node(map, 1) == 1);  // worker 1
  CHECK(map[1].role_index == 2);
  CHECK(map[2].role == TaskRole::parameter_server);
  CHECK(map[3].node_index == 1);
}

TEST_CASE("a rendezvous needs one port on node 0") {
  JobBuilder job = a_job();
  CHECK(ports_on_node(job.spec(), 2, 0, 1) == 1);
  CHECK(ports_on_node(job.spec(), 2, 1, 1) == 0);
  job.without_distribution();
  CHECK(ports_on_node(job.spec(), 2, 0, 1) == 0);
  job.spec().muster.env_export = {"torch"};
  CHECK(ports_on_node(job.spec(), 2, 0, 1) == 1);
}

TEST_CASE("Ray's head needs a port and one for its dashboard, where a cluster is started") {
  JobBuilder job = a_job();
  job.spec().distribution.type = DistributionType::ray;
  CHECK(starts_ray(job.spec()));
  CHECK(ports_on_node(job.spec(), 2, 0, 1) == 2);
  CHECK(ports_on_node(job.spec(), 2, 1, 1) == 0);
  job.spec().environment_variables["RAY_ADDRESS"] = "h:6379";
  CHECK_FALSE(starts_ray(job.spec()));
  job.spec().environment_variables.clear();
  job.spec().recorded["distribution.address"] = "h:6379";
  CHECK_FALSE(starts_ray(job.spec()));
  CHECK(ports_on_node(job.spec(), 2, 0, 1) == 0);
}
