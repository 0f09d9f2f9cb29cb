#include "launcher/staging/source_tree.h"

#include <chrono>

#include "tests/catch.h"

using namespace muster;

namespace {

struct Example {
  const char* pattern;
  const char* text;
  bool matches;
};

using Verdict = IgnoreRules::Verdict;

Verdict file(const char* rules, const char* path) { return IgnoreRules(rules).judge(path, false); }
Verdict directory(const char* rules, const char* path) {
  return IgnoreRules(rules).judge(path, true);
}

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

TEST_CASE("a rule without a slash speaks of the name at any depth") {
  CHECK(file("*.o", "a/b/c.o") == Verdict::ignored);
  CHECK(file("build", "x/build") == Verdict::ignored);
  CHECK(file("build", "x/builder") == Verdict::none);
}

TEST_CASE("a rule with a slash is anchored to its directory") {
  CHECK(file("/build", "build") == Verdict::ignored);
  CHECK(file("/build", "x/build") == Verdict::none);
  CHECK(file("docs/*.pdf", "docs/a.pdf") == Verdict::ignored);
  CHECK(file("docs/*.pdf", "docs/x/a.pdf") == Verdict::none);
  CHECK(file("docs/*.pdf", "x/docs/a.pdf") == Verdict::none);
}

TEST_CASE("a slash at the end means directories only") {
  CHECK(directory("out/", "x/out") == Verdict::ignored);
  CHECK(file("out/", "x/out") == Verdict::none);
  CHECK(directory("**/", "x") == Verdict::ignored);
  CHECK(file("/", "x") == Verdict::none);
}

TEST_CASE("the last rule that matches decides") {
  CHECK(file("*.log\n!keep.log\n", "keep.log") == Verdict::kept);
  CHECK(file("!keep.log\n*.log\n", "keep.log") == Verdict::ignored);
  CHECK(file("*.log\n!keep.log\n", "other.log") == Verdict::ignored);
}

TEST_CASE("comments, blank lines, escapes and line ends are read as written") {
  for (const char* path : {"# a comment", " a comment", "", "   ", "\r"}) {
    CHECK(file("# a comment\n\n   \n\r\n", path) == Verdict::none);
  }
  CHECK(file("\\#name", "#name") == Verdict::ignored);
  CHECK(file("\\!name", "!name") == Verdict::ignored);
  CHECK(file("name  \n", "name") == Verdict::ignored);
  CHECK(file("name\\ \n", "name ") == Verdict::ignored);
  CHECK(file("name\t\n", "name") == Verdict::none);
  CHECK(file("name\r\nother", "name") == Verdict::ignored);
  CHECK(file("\xef\xbb\xbfname", "name") == Verdict::ignored);
  CHECK(file("a b", "a b") == Verdict::ignored);
}
