#include "health/learn/profile.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

using namespace muster;

TEST_CASE("floors are below what was measured, ceilings above, with three digits") {
  const std::map<std::string, double> measured{
      {"h2d_gb_per_s", 54.8},
      {"p2p_gb_per_s", 352.7},
      {"stream_mb_per_s", 700123},
      {"ib_latency_p99_us", 4},
      {"allreduce8_gb_per_s", -1},
      {"d2h_gb_per_s", std::nan("")},
      {"hbm_mb_per_s", std::numeric_limits<double>::infinity()},
      {"no_such_metric", 5},
      {"ib_write_bw_gbps", 0}};
  HealthProfile profile;
  learn_floors(measured, profile);
  CHECK(profile.floors == std::map<std::string, double>{{"h2d_gb_per_s", 52},
                                                        {"p2p_gb_per_s", 335},
                                                        {"stream_mb_per_s", 665000},
                                                        {"ib_latency_p99_us", 4.2}});
}
