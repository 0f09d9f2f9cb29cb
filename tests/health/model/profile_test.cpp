#include "health/model/profile.h"

#include "health/model/finding.h"
#include "scheduler/text/pattern.h"

#include "tests/catch.h"

using namespace muster;

TEST_CASE("patterns of names have stars and sets") {
  CHECK(fits_pattern("mlx5_[0-7]:1", "mlx5_3:1"));
  CHECK_FALSE(fits_pattern("mlx5_[0-7]:1", "mlx5_8:1"));
  CHECK_FALSE(fits_pattern("mlx5_[0-7]:1", "mlx5_3:2"));
  CHECK(fits_pattern("mlx5_[135]", "mlx5_5"));
  CHECK_FALSE(fits_pattern("mlx5_[135]", "mlx5_2"));
  CHECK(fits_pattern("ib.*", "ib.rate"));
  CHECK(fits_pattern("*", ""));
  CHECK(fits_pattern("*_err*", "rcv_err"));
  CHECK_FALSE(fits_pattern("ib.*", "gpu.rate"));
  CHECK_FALSE(fits_pattern("", "x"));
  CHECK_FALSE(fits_pattern("[", "["));
  CHECK_FALSE(fits_pattern("[a-", "a"));
}

TEST_CASE("a check's setting is its own, or that of a pattern") {
  HealthProfile profile;
  profile.checks["ib.*"].mode = CheckMode::observe;
  profile.checks["ib.symbol"].limits["drain_per_h"] = 60;
  CHECK(setting_of(profile, "ib.rate").mode == CheckMode::observe);
  CHECK_FALSE(setting_of(profile, "ib.symbol").mode);
  CHECK(limit_of(profile, "ib.symbol", "drain_per_h", 120) == 60);
  CHECK(limit_of(profile, "ib.rate", "drain_per_h", 120) == 120);
}

TEST_CASE("devices that are left out") {
  HealthProfile profile;
  profile.exclude = {{"ib.*", "mlx5_an0", "management"}, {"gpu.temp", "", "no sensor"}};
  CHECK(is_excluded(profile, "ib.rate", "mlx5_an0"));
  CHECK_FALSE(is_excluded(profile, "ib.rate", "mlx5_0"));
  CHECK(is_excluded(profile, "gpu.temp", "gpu3"));
}

TEST_CASE("a device that is left out is so with all of its ports") {
  HealthProfile profile;
  profile.exclude = {{"ib.*", "mlx5_an0", "management"}, {"ib.*", "mlx5_5:2", "unused"}};
  CHECK(is_excluded(profile, "ib.rate", "mlx5_an0:1"));
  CHECK_FALSE(is_excluded(profile, "ib.rate", "mlx5_an01:1"));
  CHECK(is_excluded(profile, "ib.rate", "mlx5_5:2"));
  CHECK_FALSE(is_excluded(profile, "ib.rate", "mlx5_5:1"));
}
