#include "launcher/staging/glob.h"

#include <chrono>

#include "tests/catch.h"

namespace muster {

namespace {

struct Example {
  const char* pattern;
  const char* text;
  bool matches;
};

}  // namespace

TEST_CASE("globs match as ignore files mean them") {
  const Example example = GENERATE(values<Example>({
      {"name", "name", true},        {"name", "names", false},
      {"*.o", "a.o", true},          {"*.o", "a/b.o", false},
      {"*", "", true},               {"*", "a/b", false},
      {"a*c", "abbc", true},         {"a*c", "ab/c", false},
      {"?", "a", true},              {"?", "/", false},
      {"?", "", false},              {"a?c", "abc", true},
      {"[abc]", "b", true},          {"[abc]", "d", false},
      {"[a-c]x", "bx", true},        {"[!a-c]", "d", true},
      {"[^a-c]", "b", false},        {"[!a]", "/", false},
      {"[]a]", "]", true},           {"[!]a]", "]", false},
      {"[a-]", "-", true},           {"[\\]]", "]", true},
      {"[a-\\c]", "b", true},       {"[\\a-c]", "b", true},
      {"[a\\", "a", false},         {"[a-\\", "a", false},
      {"[\\-x]", "-", true},        {"[\\-x]", "a", false},
      {"", "", true},               {"", "a", false},
      {"*a?", "bab", true},         {"*a?", "ba", false},
      {"*/a", "b/a", true},         {"*/a", "b/c/a", false},
      {"[[:digit:]]", "7", true},    {"[[:digit:]]", "x", false},
      {"[[:nonsense:]]", "x", false}, {"[[:alpha:]_]x", "_x", true},
      {"[abc", "a", false},          {"[abc", "[abc", false},
      {"\\*", "*", true},            {"\\*", "a", false},
      {"a\\", "a\\", false},         {"a\\", "a", false},
      {"**/x", "x", true},           {"**/x", "a/b/x", true},
      {"**/x", "ax", false},         {"a/**", "a/b", true},
      {"a/**", "a/b/c", true},       {"a/**", "a", false},
      {"a/**/b", "a/b", true},       {"a/**/b", "a/x/y/b", true},
      {"a/**/b", "a/xb", false},     {"a/**/b", "ab", false},
      {"a**b", "axxb", true},        {"a**b", "a/b", false},
      {"a/**b", "a/xb", true},       {"a/**b", "a/x/b", false},
      {"**", "a/b", true},           {"**/*.o", "a/b.o", true},
      {"***/x", "a/x", true},        {"a/**/*/**/b", "a/x/b", true},
      {"a/**/*/**/b", "a/b", false}, {"\xff?", "\xff\xfe", true},
  }));
  INFO(example.pattern << " against " << example.text);
  CHECK(Glob(example.pattern).matches(example.text) == example.matches);
}

TEST_CASE("no pattern takes long") {
  std::string pattern;
  for (int i = 0; i < 60; ++i) pattern += "*a**/";
  const std::string text(4000, 'a');
  const auto began = std::chrono::steady_clock::now();
  CHECK_FALSE(Glob(pattern + "b").matches(text));
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(2));
}

}  // namespace muster
