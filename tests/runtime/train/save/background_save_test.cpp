// Checkpoints that are written while training goes on.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/verify.h"
#include "runtime/train/save/background.h"
#include "tests/catch.h"
#include "tests/runtime/a_run.h"
#include "tests/runtime/file_size_limit.h"
#include "tests/runtime/folder.h"
#include "tests/runtime/thread_communicator.h"

using namespace muster;
using namespace muster::test;

namespace fs = std::filesystem;

namespace {

ARun saving(const std::string& out, std::size_t ranks, const std::string& checkpoints,
            SaveMode mode) {
  return ARun{out, ranks}.with([&](TrainOptions& options) {
    options.checkpoint_dir = checkpoints;
    options.save_mode = mode;
    options.checkpoint_every = 3;
    options.keep = 100;
  });
}

// Values, moments and context of a save outside of a run.
struct ASave {
  explicit ASave(const std::string& root, Communicator& ranks) {
    space.add("w", {5000}, true);
    context.root = root;
    context.identity.generation = 1;
    context.identity.run_id = std::string(32, 'a');
    context.host = "here";
    context.lineage = {{1, 0}};
    context.windows = 1;
    state.step = 7;
    state.weights.assign(space.numel, 1.5f);
    state.owned = owned_elements(space, ranks.rank(), ranks.size());
    state.exp_avg.assign(state.owned.size(), 2.5f);
    state.exp_avg_sq.assign(state.owned.size(), 3.5f);
  }
  FlatSpace space;
  SaveContext context;
  TrainingState state;
};

// How often this program made a file or its name durable: in threads that give way to the first
// one, and in others.
std::atomic<int> patient = 0, hasty = 0;

void count_priority() {
  const int first = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
  const int own = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  ++(own >= std::min(first + 10, 19) ? patient : hasty);
}

}  // namespace

extern "C" int fdatasync(int fd) {
  count_priority();
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  count_priority();
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}

TEST_CASE("checkpoints written in the background hold what blocking ones hold") {
  const std::size_t ranks = GENERATE(1, 3);
  Folder folder;
  const ARun blocking = saving(folder / "a", ranks, folder / "blocking", SaveMode::blocking);
  const ARun background = saving(folder / "b", ranks, folder / "background", SaveMode::background);
  REQUIRE(blocking.go() == "0");
  REQUIRE(background.go() == "0");
  CHECK(background.weights() == blocking.weights());
  const CheckpointSearch search = search_checkpoints(folder / "background");
  CHECK(search.rejected.empty());
  REQUIRE(search.newest() != nullptr);
  CHECK(search.newest()->step == 12);  // the last is waited for
  // Those between may begin late, but what they hold is the state of their step.
  for (const FoundCheckpoint& found : search.usable) {
    const std::string twin = folder / "blocking/" + found.directory;
    if (!fs::exists(twin)) continue;
    for (const auto& shard : fs::directory_iterator(twin)) {
      const std::string name = shard.path().filename().string();
      if (name.starts_with("shard")) {
        CHECK(content_of(found.path + "/" + name) == content_of(shard.path().string()));
      }
    }
  }
}

TEST_CASE("a run goes on from a checkpoint that was written in the background") {
  Folder folder;
  ARun run = saving(folder / "a", 2, folder / "ckpt", SaveMode::background);
  run.options.steps = 7;
  REQUIRE(run.go() == "0");
  run.options.steps = 12;
  run.options.resume = "auto";
  REQUIRE(run.go() == "0");
  const ARun whole{folder / "whole", 1};
  REQUIRE(whole.go() == "0");
  CHECK(run.weights() == whole.weights());
}

TEST_CASE("what training does after the copy does not reach the checkpoint") {
  Folder folder;
  std::vector<SaveOutcome> outcomes(2);
  ThreadWorld(2).run([&](Communicator& ranks) {
    ASave save(folder.path(), ranks);
    BackgroundSave background(save.context, save.space, ranks);
    background.begin(save.state);
    background.wait_for_copy();
    std::fill(save.state.weights.begin(), save.state.weights.end(), 9.0f);
    std::fill(save.state.exp_avg.begin(), save.state.exp_avg.end(), 9.0f);
    save.state.step = 8;
    outcomes[ranks.rank()] = background.finish();
  });
  for (const SaveOutcome& outcome : outcomes) {
    CHECK(outcome.committed);
    CHECK(outcome.trouble.empty());
  }
  const auto found = find_newest_checkpoint(folder.path());
  REQUIRE(found);
  CHECK(found->step == 7);
  const auto manifest = read_manifest(found->path);
  REQUIRE(manifest);
  CHECK(manifest.value().replica.agree);
  CheckpointReader reader(found->path, manifest.value());
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    std::vector<float> values(manifest.value().flat.numel);
    REQUIRE(reader.read(plane, 0, values));
    CHECK(values == std::vector<float>(values.size(), 1.5f + static_cast<float>(plane)));
  }
}

TEST_CASE("notes lead all ranks to the same outcome at the same step") {
  Folder folder;
  std::vector<std::string> stories(3);
  ThreadWorld(3).run([&](Communicator& ranks) {
    ASave save(folder.path(), ranks);
    BackgroundSave background(save.context, save.space, ranks);
    std::string& story = stories[ranks.rank()];
    if (background.note().empty()) story += "quiet, ";
    background.begin(save.state);
    background.wait_for_copy();
    std::optional<SaveOutcome> outcome;
    int steps = 0;
    while (!outcome && ++steps < 1000000) {
      outcome = background.hear(ranks.gather_texts(background.note()));
    }
    if (outcome && outcome->committed) story += "committed ";
    if (!background.busy()) story += "after " + std::to_string(steps);
  });
  CHECK_THAT(stories[0], ContainsSubstring("quiet, committed after "));
  CHECK(stories == std::vector<std::string>(3, stories[0]));
}

TEST_CASE("a shard that cannot be written ends the save, and not the run") {
  Folder folder;
  const ARun whole{folder / "whole", 1};
  REQUIRE(whole.go() == "0");
  const ARun run = saving(folder / "a", 2, folder / "ckpt", SaveMode::background);
  // The weights and the log are small enough for this limit, the shards are not.
  const FileSizeLimit limit(60000);
  REQUIRE(run.go() == "0");
  CHECK(run.weights() == whole.weights());
  CHECK_FALSE(find_newest_checkpoint(folder / "ckpt"));
  CHECK(std::distance(fs::directory_iterator(folder / "ckpt"), fs::directory_iterator()) == 2);
}

TEST_CASE("a state that is not finite is given up in the background too") {
  Folder folder;
  std::vector<SaveOutcome> outcomes(2);
  ThreadWorld(2).run([&](Communicator& ranks) {
    ASave save(folder.path(), ranks);
    if (ranks.rank() == 1) save.state.exp_avg[3] = std::numeric_limits<float>::infinity();
    BackgroundSave background(save.context, save.space, ranks);
    background.begin(save.state);
    background.wait_for_copy();
    outcomes[ranks.rank()] = background.finish();
  });
  for (const SaveOutcome& outcome : outcomes) {
    CHECK_FALSE(outcome.committed);
    CHECK_THAT(outcome.trouble, ContainsSubstring("rank 1: 1 values of the state are not finite"));
  }
  CHECK_FALSE(find_newest_checkpoint(folder.path()));
}

TEST_CASE("without a common directory, a save in the background comes to rank 0's node") {
  Folder folder;
  ARun run = ARun{folder / "a", 3}.with([](TrainOptions& options) {
    options.steps = 11;
    options.save_mode = SaveMode::background;
  });
  run.own_directory = [&](std::size_t rank) { return folder / ("node" + std::to_string(rank)); };
  REQUIRE(run.go() == "0");
  const auto found = find_newest_checkpoint(folder / "node0");
  REQUIRE(found);
  CHECK(found->step == 11);
  CHECK(search_checkpoints(folder / "node1").usable.empty());
}

TEST_CASE("a save that was given up is not sealed, whatever its threads had done") {
  const std::size_t ranks = GENERATE(1, 2);
  Folder folder;
  ThreadWorld(ranks).run([&](Communicator& rank) {
    ASave save(folder.path(), rank);
    BackgroundSave background(save.context, save.space, rank);
    background.begin(save.state);
    background.give_up();
    std::fill(save.state.weights.begin(), save.state.weights.end(), 9.0f);
  });
  // A single rank may have sealed it before.
  const auto found = find_newest_checkpoint(folder.path());
  if (ranks > 1) CHECK_FALSE(found);
  if (found) CHECK(verify_checkpoint(found->path, {}).good());
}

TEST_CASE("a save is waited for as long as that, and ends later if it must") {
  Folder folder;
  std::vector<char> committed(2);
  ThreadWorld(2).run([&](Communicator& rank) {
    ASave save(folder.path(), rank);
    BackgroundSave background(save.context, save.space, rank);
    background.begin(save.state);
    auto outcome = background.finish_within(std::chrono::milliseconds(-1));
    if (!outcome) outcome = background.finish();
    save.state.step = 8;
    background.begin(save.state);
    outcome = background.finish_within(std::chrono::seconds(60));
    committed[rank.rank()] = outcome && outcome->committed;
  });
  CHECK(committed == std::vector<char>{1, 1});
  CHECK(find_newest_checkpoint(folder.path())->step == 8);
}

TEST_CASE("the threads that write and commit give way to training") {
  Folder folder;
  patient = hasty = 0;
  ThreadWorld(GENERATE(1, 3)).run([&](Communicator& rank) {
    ASave save(folder.path(), rank);
    BackgroundSave background(save.context, save.space, rank);
    background.begin(save.state);
    background.finish();
  });
  REQUIRE(find_newest_checkpoint(folder.path()));
  CHECK(patient > 0);
  CHECK(hasty == 0);
}
