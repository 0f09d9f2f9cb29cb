// What the agent tells of a job's checkpoints.
#include "launcher/agent/watch/checkpoint.h"

#include "launcher/agent/node_check.h"
#include "runtime/checkpoint/resume_log.h"
#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace {

ACheckpoint commit(const Folder& folder, std::uint64_t step, bool certified) {
  ACheckpoint one{.root = folder.path(), .step = step};
  one.commit();
  REQUIRE(mark_sane(one.path(), {step, 1, {"finite"}}).ok());
  if (certified) REQUIRE(certify(one.path(), {step + 20, 1, {"20 steps"}}).ok());
  return one;
}

}  // namespace

TEST_CASE("the newest certified checkpoint is told beside the newest") {
  Folder folder;
  commit(folder, 10, true);
  const ACheckpoint good = commit(folder, 20, true);
  const ACheckpoint newest = commit(folder, 30, false);
  const CheckpointProbe probe = probe_checkpoints({folder.path()});
  REQUIRE(probe.newest);
  CHECK(probe.newest->directory == newest.path());
  REQUIRE(probe.newest_certified);
  CHECK(probe.newest_certified->step == 20);
  CHECK(probe.newest_certified->directory == good.path());
  CheckNode request;
  request.asked_step = 20;
  const CheckDone done = check_node(request, folder.path(), "/usr/bin", {folder.path()});
  CHECK(done.newest_checkpoint->step == 30);
  CHECK(done.newest_certified->step == 20);
  REQUIRE(done.asked_checkpoint);
  CHECK(done.asked_checkpoint->directory == good.path());
}

TEST_CASE("a step that is asked for is told as it was last saved, and only where it is") {
  Folder folder;
  ACheckpoint older{.root = folder.path(), .step = 10, .generation = 1};
  older.commit();
  ACheckpoint later{.root = folder.path(), .step = 10, .generation = 2};
  later.commit();
  CHECK_FALSE(probe_checkpoints({folder.path()}).asked);
  CHECK_FALSE(probe_checkpoints({folder.path()}, 15).asked);
  const auto asked = probe_checkpoints({folder.path()}, 10).asked;
  REQUIRE(asked);
  CHECK(asked->directory == later.path());
}

TEST_CASE("a step of another program's checkpoints is told where one complete file is of it") {
  Folder folder;
  const std::string whole = std::string("PK\3\4PK\5\6") + std::string(18, '\0');
  put(folder / "model_40.pt", whole);
  put(folder / "model_50.pt", whole);
  const SavePlaces places = save_places("", {folder.path(), folder / "outputs"}, {});
  const auto asked = probe_checkpoints(places, 40).asked;
  REQUIRE(asked);
  CHECK(asked->directory == folder / "model_40.pt");
  CHECK(asked->kind == "torch");
  CHECK_FALSE(probe_checkpoints(places, 45).asked);
  put(folder / "model_60.pt", whole.substr(0, 10));
  CHECK_FALSE(probe_checkpoints(places, 60).asked);
  put(folder / "discriminator_40.pt", whole);  // which of the two is meant?
  CHECK_FALSE(probe_checkpoints(places, 40).asked);
}

TEST_CASE("a quarantined checkpoint is told neither as newest nor as certified") {
  Folder folder;
  commit(folder, 10, true);
  const ACheckpoint bad = commit(folder, 20, true);
  REQUIRE(quarantine_checkpoint(folder.path(), {bad.name(), "manual", 1}, "odd").ok());
  const CheckpointProbe probe = probe_checkpoints({folder.path()});
  CHECK(probe.newest->step == 10);
  CHECK(probe.newest_certified->step == 10);
}

TEST_CASE("without certificates there is no certified checkpoint") {
  Folder folder;
  CHECK_FALSE(probe_checkpoints({folder.path()}).newest_certified);
  commit(folder, 10, false);
  const CheckpointProbe probe = probe_checkpoints({folder.path()});
  CHECK(probe.newest);
  CHECK_FALSE(probe.newest_certified);
}
