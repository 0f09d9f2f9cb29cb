#include "health/model/check.h"

#include <set>

#include "tests/catch.h"

using namespace muster;

TEST_CASE("every check has a name of its own, a source, a criterion and a time to run") {
  std::set<std::string_view> ids;
  for (const auto table :
       {gpu_checks(), infiniband_checks(), fabric_checks(), host_checks(), performance_checks()}) {
    for (const CheckSpec& spec : table) {
      INFO(spec.id);
      CHECK(ids.insert(spec.id).second);
      CHECK_FALSE(spec.source.empty());
      CHECK_FALSE(spec.criterion.empty());
      CHECK(spec.phases != 0);
      CHECK(spec.cost.count() > 0);
      CHECK(find_check(spec.id) == &spec);
    }
  }
  CHECK(find_check("gpu.nothing") == nullptr);
}

TEST_CASE("a severity is written as it is read") {
  CHECK(text_of({Remedy::reboot, Remedy::rma, true}) == "!reboot>rma");
  CHECK(text_of({Remedy::warn, {}, false}) == "warn");
}
