#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "scheduler/restart/pattern.h"
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

// What is written to standard error meanwhile.
template <class Act>
std::string complained_in(Act act) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  const int before = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  ::dup2(ends[1], STDERR_FILENO);
  act();
  ::dup2(before, STDERR_FILENO);
  std::array<char, 4096> text{};
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  for (const int each : {before, ends[0], ends[1]}) ::close(each);
  return size <= 0 ? "" : std::string(text.data(), static_cast<std::size_t>(size));
}

}  // namespace

TEST_CASE("named groups of a pattern hold what they found") {
  const Pattern steps = pattern(R"(step (?P<step>\d+)(: loss (?P<loss>\S+))?)");
  using Named = std::map<std::string, std::string_view>;
  CHECK(steps.named_in("at step 12: loss 0.5, lr 1") == Named{{"loss", "0.5,"}, {"step", "12"}});
  CHECK(steps.named_in("step 12") == Named{{"step", "12"}});
  CHECK(steps.named_in("nothing").empty());
  CHECK(pattern("(a)").named_in("a").empty());
}

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

TEST_CASE("what is wrong with a pattern is returned, and told to nobody else") {
  CHECK(complained_in([] { ::dprintf(STDERR_FILENO, "aloud"); }) == "aloud");
  for (const char* text : {"a(b", "[z-a]", "\xff", "((a{100}){100}){100}"}) {
    CHECK(complained_in([text] { CHECK_FALSE(Pattern::compile(text)); }) == "");
    CHECK(complained_in([text] { PatternSet({text, "b"}); }) == "");
  }
}

TEST_CASE("a set is as large as all rules together, beyond what one pattern may be") {
  std::vector<std::string> many;
  for (int i = 0; i < 100; ++i) many.push_back("(?i)error " + std::to_string(i) + "\\b.{0,20}x");
  const PatternSet set(many);
  const auto marked = set.may_be_in({"Error 17: x"});
  CHECK(std::count(marked.begin(), marked.end(), true) == 1);
  CHECK(marked.at(17));
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
