// What the program is told to look at when a person asks for a node's health.
#include "launcher/agent/health_looks.h"

#include <algorithm>

#include "tests/catch.h"

using namespace muster;

namespace {

using Words = std::vector<std::string>;

bool has(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

LookAtHealth a_look() {
  LookAtHealth look;
  look.wanted.phase = "qualification";
  look.wanted.is_idle = true;
  look.wanted.checks = {"ib.*", "--root"};
  return look;
}

}  // namespace

TEST_CASE("a free node is looked at as asked") {
  const Words words = health_look_arguments(a_look(), false, "/run/state");
  CHECK(Words(words.begin(), words.begin() + 2) == Words{"health", "run"});
  CHECK(has(words, "--output=json"));
  CHECK(has(words, "--state=/run/state"));
  CHECK(has(words, "--phase=qualification"));
  CHECK(has(words, "--idle"));
  CHECK(has(words, "--check=ib.*"));
  CHECK(has(words, "--check=--root"));  // no option of its own
  CHECK_FALSE(has(words, "--beside-ranks"));
  CHECK_FALSE(has(words, "--profile=-"));
}

TEST_CASE("beside ranks neither the phase nor the word of a person counts") {
  const Words words = health_look_arguments(a_look(), true, "/run/state");
  CHECK(has(words, "--beside-ranks"));
  CHECK_FALSE(has(words, "--idle"));
  CHECK_FALSE(has(words, "--phase=qualification"));
}

TEST_CASE("a profile comes by standard input and stands alone") {
  LookAtHealth look;
  look.profile = "profile: secret-site\n";
  const Words words = health_look_arguments(look, false, "s");
  CHECK(has(words, "--profile=-"));
  CHECK(has(words, "--profile-alone"));
  for (const std::string& word : words) CHECK(word.find("secret") == word.npos);
}

TEST_CASE(
    "a measurement is `health active` with the words that it was sent, and the profile alone") {
  MeasureNode measure;
  measure.words = {"--only", "cpu"};
  measure.profile = "profile: secret-site\n";
  const Words words = measure_arguments(measure, "/run/state");
  CHECK(Words(words.begin(), words.begin() + 2) == Words{"health", "active"});
  CHECK(Words(words.end() - 2, words.end()) == Words{"--only", "cpu"});
  CHECK(has(words, "--output=json"));
  CHECK(has(words, "--state=/run/state"));
  CHECK(has(words, "--profile=-"));
  CHECK(has(words, "--profile-alone"));
  for (const std::string& word : words) CHECK(word.find("secret") == word.npos);
}

TEST_CASE("a probe has its words alone: its token is no argument") {
  MeasureNode measure;
  measure.is_probe = true;
  measure.words = {"tcp-serve", "--port", "18700"};
  measure.token = "secret-of-a-run";
  CHECK(measure_arguments(measure, "s") == Words{"agent", "probe", "tcp-serve", "--port", "18700"});
}

TEST_CASE("one of a host measures at a time, and whoever gave up lets the next one") {
  MeasureClaim mine;
  MeasureClaim theirs;
  REQUIRE(mine.take());
  CHECK(mine.take());
  CHECK_FALSE(theirs.take());
  mine.give_back();
  CHECK(theirs.take());
  CHECK_FALSE(mine.take());
}
