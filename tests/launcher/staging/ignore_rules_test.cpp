#include "launcher/staging/glob.h"

#include "tests/catch.h"

namespace muster {

namespace {

using Verdict = IgnoreRules::Verdict;

Verdict file(const char* rules, const char* path) { return IgnoreRules(rules).judge(path, false); }
Verdict directory(const char* rules, const char* path) {
  return IgnoreRules(rules).judge(path, true);
}

}  // namespace

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
  CHECK(IgnoreRules("# a comment\n\n   \n\r\n").is_empty());
  CHECK(file("\\#name", "#name") == Verdict::ignored);
  CHECK(file("\\!name", "!name") == Verdict::ignored);
  CHECK(file("name  \n", "name") == Verdict::ignored);
  CHECK(file("name\\ \n", "name ") == Verdict::ignored);
  CHECK(file("name\t\n", "name") == Verdict::none);
  CHECK(file("name\r\nother", "name") == Verdict::ignored);
  CHECK(file("\xef\xbb\xbfname", "name") == Verdict::ignored);
  CHECK(file("a b", "a b") == Verdict::ignored);
}

}  // namespace muster
