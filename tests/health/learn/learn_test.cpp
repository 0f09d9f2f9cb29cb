#include "health/learn/profile.h"

#include <cmath>
#include <limits>

#include "scheduler/text/pattern.h"
#include "tests/catch.h"

using namespace muster;

TEST_CASE("nothing measured is nothing to judge by") {
  LearnedFacts facts;
  facts.profile_name = "bare";
  HealthProfile bare;
  bare.name = "bare";
  CHECK(learn_profile(facts) == bare);
}

TEST_CASE("what a good node has becomes what a healthy node has") {
  LearnedFacts facts;
  facts.profile_name = "lab";
  facts.gpu_name = "NVIDIA H100 80GB HBM3";
  facts.gpu_count = 8;
  facts.nvlinks = 18;
  facts.ecc = true;
  facts.mem_kb = 1961032704;
  facts.nofile = 1048576;
  facts.cpus = 96;
  facts.mounts = {"/home", "/od\nd"};
  const HealthProfile profile = learn_profile(facts);
  CHECK(profile.match_gpu_name == "NVIDIA H100 80GB HBM3");
  CHECK(profile.match_gpu_count == 8);
  CHECK(profile.gpu.nvlinks == 18);
  CHECK(profile.gpu.ecc == true);
  CHECK_FALSE(profile.gpu.mig);
  CHECK(profile.host.mem_kb == 1961032704);
  CHECK(profile.host.nofile == 65536);  // more than enough is not asked of others
  CHECK(profile.host.cpus == 96);
  CHECK(profile.host.mounts == std::vector<std::string>{"/home"});
  CHECK(profile.required == std::vector<std::string>{"gpu.count", "gpu.nvlink_active"});
}

TEST_CASE("floors are below what was measured, ceilings above, with three digits") {
  LearnedFacts facts;
  facts.measured = {{"h2d_gb_per_s", 54.8},
                    {"p2p_gb_per_s", 352.7},
                    {"stream_mb_per_s", 700123},
                    {"ib_latency_p99_us", 4},
                    {"allreduce8_gb_per_s", -1},
                    {"d2h_gb_per_s", std::nan("")},
                    {"hbm_mb_per_s", std::numeric_limits<double>::infinity()},
                    {"no_such_metric", 5},
                    {"ib_write_bw_gbps", 0}};
  const HealthProfile profile = learn_profile(facts);
  CHECK(profile.floors == std::map<std::string, double>{{"h2d_gb_per_s", 52},
                                                        {"p2p_gb_per_s", 335},
                                                        {"stream_mb_per_s", 665000},
                                                        {"ib_latency_p99_us", 4.2}});
}

TEST_CASE("ports that are no InfiniBand, or slower than most, are left out with a word") {
  LearnedFacts facts;
  facts.ports = {{"mlx5_0:1", true, 400, "4X"},
                 {"mlx5_1:1", true, 400, "4X"},
                 {"mlx5_2:1", true, 100, "4X"},
                 {"mlx5_an0:1", false, 100, {}},
                 {"", true, 400, "4X"}};
  const HealthProfile profile = learn_profile(facts);
  CHECK(profile.ib.ports == std::vector<std::string>{"mlx5_0:1", "mlx5_1:1"});
  CHECK(profile.ib.rate_gbps == 400);
  CHECK(profile.ib.width == "4X");
  CHECK(is_excluded(profile, "ib.rate", "mlx5_2:1"));
  CHECK(is_excluded(profile, "ib.state", "mlx5_an0:1"));
  CHECK_FALSE(is_excluded(profile, "ib.state", "mlx5_0:1"));
  CHECK(profile.required == std::vector<std::string>{"ib.state"});
}

TEST_CASE("a name with the letters of a pattern fits itself alone") {
  LearnedFacts facts;
  facts.gpu_name = "odd [a-c]*";
  facts.gpu_count = 1;
  const HealthProfile profile = learn_profile(facts);
  CHECK(fits_pattern(profile.match_gpu_name, "odd [a-c]*"));
  CHECK_FALSE(fits_pattern(profile.match_gpu_name, "odd a"));
  facts.gpu_name = "\xff\n";
  CHECK(learn_profile(facts).match_gpu_name.empty());
}
