// What an operator decides about a checkpoint: done, and said.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/command_site.h"

using namespace muster;

namespace {

const char* const step_200 = "s000000200-g1";

// A directory with two checkpoints that nobody sealed.
std::string two_checkpoints(const CommandSite& site) {
  site.add("ckpt/s000000100-g1/part", "x");
  site.add(std::string("ckpt/") + step_200 + "/part", "x");
  return site.path("ckpt");
}

}  // namespace

TEST_CASE("a checkpoint is pinned and let go by its step or its directory, and that is said") {
  const CommandSite site;
  const std::string root = two_checkpoints(site);
  const SaidByVerb pinned =
      site.type("checkpoint pin " + root + "@200 --reason", {"for the paper"});
  CHECK(pinned.code == 0);
  CHECK(pinned.out.empty());
  CHECK(pinned.err == std::string("muster: ") + step_200 + " is pinned: nothing deletes it\n");
  const SaidByVerb again =
      site.type("checkpoint pin -o json --only-show-errors " + root + "/" + step_200);
  CHECK(again.code == 0);
  CHECK(again.err.empty());
  REQUIRE(again.document().size() == 1);
  CHECK(again.document()[0]["pinned"] == true);
  const SaidByVerb unpinned = site.type("checkpoint unpin " + root + "/" + step_200);
  CHECK(unpinned.code == 0);
  CHECK_THAT(unpinned.err, ContainsSubstring("s000000200-g1 is no longer pinned"));
  const SaidByVerb twice = site.type("checkpoint unpin " + root + "/" + step_200);
  CHECK(twice.code == 1);
  CHECK_THAT(twice.err, ContainsSubstring("is not pinned"));
}

TEST_CASE("a decision is about one checkpoint that is there, else it ends with 1") {
  const CommandSite site;
  const std::string root = two_checkpoints(site);
  const SaidByVerb which = site.type("checkpoint pin " + root);
  CHECK(which.code == 1);
  CHECK_THAT(which.err, ContainsSubstring("name one checkpoint: " + root + "@STEP"));
  CHECK(site.type("checkpoint pin " + root + "@300").code == 1);
  CHECK(site.type("checkpoint pin " + root + "/none").code == 1);
  const SaidByVerb release = site.type("checkpoint release --reason x " + root + "@100");
  CHECK(release.code == 1);
  CHECK_THAT(release.err, ContainsSubstring("is not quarantined"));
}

TEST_CASE("a directory's checkpoints are listed, and an empty one is said to be empty") {
  const CommandSite site;
  const SaidByVerb two = site.type("checkpoint list -o json " + two_checkpoints(site));
  CHECK(two.code == 0);
  REQUIRE(two.document().size() == 2);
  CHECK_THAT(site.type("checkpoint list " + site.path("ckpt")).out, ContainsSubstring("200"));
  std::filesystem::create_directory(site.path("empty"));
  const SaidByVerb none = site.type("checkpoint list " + site.path("empty"));
  CHECK(none.code == 0);
  CHECK(none.out.empty());
  CHECK_THAT(none.err, ContainsSubstring("holds no checkpoints"));
}
