#include <chrono>

#include "policy/pattern.h"
#include "tests/catch.h"

using namespace muster;

namespace {

Pattern pattern(const std::string& text) {
  const auto compiled = Pattern::compile(text);
  INFO((compiled ? "" : compiled.error().message));
  REQUIRE(compiled);
  return *compiled;
}

std::string problem(const std::string& text) {
  const auto compiled = Pattern::compile(text);
  REQUIRE(!compiled);
  return compiled.error().message;
}

}  // namespace

TEST_CASE("a pattern is found anywhere in a line, and its anchors are the line's ends") {
  CHECK(pattern("out of memory").found_in("RuntimeError: CUDA out of memory."));
  CHECK(pattern("^Runtime.*memory$").found_in("RuntimeError: out of memory"));
  CHECK(!pattern("^memory").found_in("out of memory"));
  CHECK(pattern("(?i)ecc").found_in("an ECC error"));
}

TEST_CASE("a text that is no pattern is refused with the part that is wrong") {
  CHECK_THAT(problem("a(b"), ContainsSubstring("missing"));
  CHECK_THAT(problem("[z-a]"), ContainsSubstring("z-a"));
  CHECK_THAT(problem("*"), ContainsSubstring(": *"));
  CHECK_THAT(problem("(a)\\1"), ContainsSubstring("\\1"));
  CHECK_THAT(problem("a(?=b)"), ContainsSubstring("(?="));
  CHECK_THAT(problem(""), ContainsSubstring("empty"));
  CHECK_THAT(problem(std::string(513, 'a')), ContainsSubstring("512"));
  CHECK_THAT(problem("\xff"), ContainsSubstring("UTF-8"));
}

TEST_CASE("a pattern that would grow beyond its memory is refused") {
  CHECK(!Pattern::compile("((a{100}){100}){100}"));
  CHECK(!Pattern::compile("a{100000}"));
  CHECK(!Pattern::compile("\\pL{200}"));  // a letter of any script takes thousands of states
}

TEST_CASE("hostile patterns and lines take linear time and no stack") {
  const std::string line(1 << 20, 'a');
  const auto begin = std::chrono::steady_clock::now();
  for (const char* text :
       {"(a+)+$b", "(a|aa)+c", "(a*)*b", "(.*)(.*)(.*)(.*)x", "(a?){50}a{50}b"}) {
    CHECK(!pattern(text).found_in(line));
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{5});
}

TEST_CASE("of a line only what an error line could hold is seen") {
  const std::string line = std::string(5000, ' ') + "error";
  CHECK(!pattern("error").found_in(line));
}

TEST_CASE("a set marks the patterns that are in a line and leaves out those that are in none") {
  const PatternSet set({"ECC", "", "(", "^step [0-9]+$", "memory"});
  CHECK(set.may_be_in({"step 4", "out of memory"}) ==
        std::vector<bool>{false, false, false, true, true});
  CHECK(set.may_be_in({}) == std::vector<bool>(5, false));
  CHECK(PatternSet({}).may_be_in({"x"}).empty());
}

TEST_CASE("bytes that are no text neither match a letter nor do harm") {
  CHECK(pattern("memory").found_in("\xff\xfe memory \x00"));
  CHECK(!pattern("^[a-z]+$").found_in("\xff\xfe"));
}
