#include "cli/grammar/renamed.h"

#include "tests/catch.h"

using namespace muster;

namespace {

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("old names of options and verbs stand for the present ones") {
  CHECK(with_present_names({"health", "--quick", "--profile-alone"}) ==
        Words{"health", "--once", "--no-base-profile"});
  CHECK(with_present_names({"health", "fabric", "--golden=a b", "--leaves", "f"}) ==
        Words{"health", "fabric", "--baseline=a b", "--topology", "f"});
  CHECK(with_present_names({"health", "active", "active"}) ==
        Words{"health", "benchmark", "active"});
  CHECK(with_present_names({"nodes", "--rearm", "lab"}) ==
        Words{"nodes", "--reset-breaker", "lab"});
}

TEST_CASE("what only looks like an old name stays") {
  for (const Words& words : {Words{},
                             {"--quick"},
                             {"run", "--quick"},
                             {"exec", "j", "--rearm"},
                             {"health", "--quickly"},
                             {"health", "--", "--quick"},
                             {"nodes", "--quick", "active"}}) {
    CHECK(with_present_names(words) == words);
  }
}
