// What an operator decides about a checkpoint: done, and said.
#include <nlohmann/json.hpp>

#include "scheduler/model/record.h"
#include "tests/catch.h"
#include "tests/cli/command_site.h"
#include "tests/cli/fake_controller.h"

using namespace muster;

namespace {

const char* const step_200 = "s000000200-g1";

// A directory with two checkpoints that nobody sealed.
std::string two_checkpoints(const CommandSite& site) {
  site.add("ckpt/s000000100-g1/part", "x");
  site.add(std::string("ckpt/") + step_200 + "/part", "x");
  return site.path("ckpt");
}

// One that failed on this machine, with those checkpoints, or with none.
void add_ended_job(const CommandSite& site, const std::string& newest) {
  const JobId kite{"kite"};
  JobSubmitted submitted;
  submitted.job = kite;
  submitted.spec.name = kite.value;
  submitted.target.nodes.resize(1);
  submitted.target.nodes[0].transport = TransportKind::local;
  AttemptEnded failed;
  failed.job = kite;
  if (!newest.empty()) failed.newest_checkpoint = CheckpointRef{200, newest};
  JobRow row;
  row.name = row.display_name = kite.value;
  row.state = "Failed";
  row.ended_at = from_ms(9);
  row.tags = "{}";
  const std::vector<NodeId> nodes{NodeId{"local-0"}};
  const std::vector<Record> records{
      {from_ms(1), Observation(submitted)},
      {from_ms(2), Decision(AttemptPlaced{kite, AttemptId{0}, nodes, "free"})},
      {from_ms(3), Decision(failed)},
      {from_ms(9), Decision(JobEnded{kite, JobEndState::failed, 1, "it failed"})}};
  const auto store = Store::open(site.home().root, Store::Mode::read_write);
  REQUIRE(store);
  REQUIRE((*store)->append(records, {row}));
}

}  // namespace

TEST_CASE("a job is not resumed from a step that it has no checkpoint of") {
  const CommandSite site;
  const bool has_some = GENERATE(true, false);
  add_ended_job(site, has_some ? two_checkpoints(site) + "/" + step_200 : "");
  int asked = 0;
  FakeController controller(site.home(), FakeController::any_number,
                            of_this_build([&asked](const ToController&) {
                              ++asked;
                              return encode(FromController(Accepted{JobId{"kite"}, ""}));
                            }));
  const SaidByVerb other = site.type("resume kite --from 55");
  CHECK(other.code == 1);
  CHECK_THAT(other.err, ContainsSubstring(has_some ? "/ckpt holds no checkpoint of step 55"
                                                   : "has committed no checkpoint yet"));
  const SaidByVerb unsealed = site.type("resume kite --from 200");
  CHECK(unsealed.code == 1);
  CHECK_THAT(unsealed.err, ContainsSubstring(has_some ? step_200 : "no checkpoint yet"));
  CHECK(asked == 0);
  CHECK(site.type("resume kite --from 0").code == 0);
  CHECK(asked == 1);
}

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
