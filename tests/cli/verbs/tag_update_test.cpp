#include "cli/verbs/verbs.h"

#include "tests/catch.h"

using namespace muster;

TEST_CASE("tags are set, replaced and removed") {
  const auto tags = updated_tags(
      R"({"a":"1","b":"2"})", {.set = {"tags.a=x=y", "tags.c="}, .removed = {"tags.b", "tags.z"}});
  REQUIRE(tags);
  CHECK(*tags == R"({"a":"x=y","c":""})");
  CHECK(*updated_tags("not json", {.set = {"tags.a=1"}, .removed = {}}) == R"({"a":"1"})");
}

TEST_CASE("only tags can be updated") {
  for (const char* wrong : {"name=x", "tags.a", "tags.=x", "description=x"}) {
    const auto tags = updated_tags("{}", {.set = {wrong}, .removed = {}});
    REQUIRE_FALSE(tags);
    CHECK_THAT(tags.error().message, ContainsSubstring(wrong));
  }
}
