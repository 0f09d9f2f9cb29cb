#include "launcher/os/child.h"

#include "tests/catch.h"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("a program's output comes back, its arguments being words and no shell text") {
  const auto said = run_within({"printf", "%s", "a b; $(exit 3) 'c'"}, 10s);
  REQUIRE(said);
  CHECK(*said == "a b; $(exit 3) 'c'");
}

TEST_CASE("a program that fails is told with its last words, or its code") {
  CHECK(run_within({"sh", "-c", "echo no such node >&2; exit 3"}, 10s).error().message ==
        "'sh -c echo no such node >&2; exit 3' failed: no such node");
  CHECK_THAT(run_within({"false"}, 10s).error().message, ContainsSubstring("exit code 1"));
  CHECK_THAT(run_within({"sh", "-c", "kill -9 $$"}, 10s).error().message,
             ContainsSubstring("killed by signal 9"));
  CHECK_THAT(run_within({"/nowhere/scontrol"}, 10s).error().message,
             ContainsSubstring("cannot start /nowhere/scontrol"));
}

TEST_CASE("a program that does not end is killed at the limit, with what it started") {
  const auto began = std::chrono::steady_clock::now();
  CHECK_THAT(run_within({"sh", "-c", "sleep 100 & sleep 100"}, 100ms).error().message,
             ContainsSubstring("gave no answer within 100 ms"));
  CHECK(std::chrono::steady_clock::now() - began < 5s);
}
