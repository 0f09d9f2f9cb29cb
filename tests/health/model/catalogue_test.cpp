#include "health/model/check.h"

#include <set>

#include "tests/catch.h"

using namespace muster;

TEST_CASE("every check has a name of its own, a source, a criterion and a time to run") {
  std::set<std::string_view> ids;
  for (const CheckSpec* spec : every_check()) {
    INFO(spec->id);
    CHECK(ids.insert(spec->id).second);
    CHECK_FALSE(spec->source.empty());
    CHECK_FALSE(spec->says.empty());
    CHECK(spec->phases != 0);
    CHECK(spec->cost.count() > 0);
    CHECK(find_check(spec->id) == spec);
  }
  CHECK(find_check("gpu.nothing") == nullptr);
}

TEST_CASE("a severity is written as it is read") {
  CHECK(text_of({Remedy::reboot, Remedy::rma, true}) == "!reboot>rma");
  CHECK(text_of({Remedy::warn, {}, false}) == "warn");
}

TEST_CASE("a limit of a check has a name of its own, and its usual value is one it may have") {
  for (const CheckSpec* spec : every_check()) {
    std::set<std::string_view> names;
    for (const CheckLimit& limit : spec->limits) {
      INFO(spec->id << " " << limit.name);
      CHECK(names.insert(limit.name).second);
      CHECK(limit.lowest < limit.highest);
      if (limit.usual) CHECK((*limit.usual >= limit.lowest && *limit.usual <= limit.highest));
    }
  }
}
