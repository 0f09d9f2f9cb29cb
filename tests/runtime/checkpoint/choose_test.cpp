#include "runtime/checkpoint/choose.h"

#include <filesystem>

#include "runtime/checkpoint/commit.h"
#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace fs = std::filesystem;

namespace {

std::string newest_name(const std::string& root) {
  const auto found = find_newest_checkpoint(root);
  return found ? found->directory : "none";
}

}  // namespace

TEST_CASE("nothing is found where there is nothing") {
  Folder folder;
  CHECK(newest_name(folder.path()) == "none");
  CHECK(newest_name(folder / "gone") == "none");
  put(folder / "s000000010-g1/shard-00000-of-00001.safetensors", "an orphan");
  put(folder / "s000000011-g1", "a file, not a directory");
  put(folder / "notes/manifest.json", "{}");
  std::vector<RejectedCheckpoint> rejected;
  CHECK_FALSE(find_newest_checkpoint(folder.path(), &rejected));
  CHECK(rejected.size() == 2);
}

TEST_CASE("the highest step wins, then the highest generation, whatever LATEST says") {
  Folder folder;
  ACheckpoint{.root = folder.path(), .step = 30}.commit();
  ACheckpoint{.root = folder.path(), .step = 20}.commit();
  ACheckpoint{.root = folder.path(), .step = 30, .generation = 2, .lineage = {{1, 0}, {2, 30}}}
      .commit();
  put(folder / "LATEST", "s000000020-g1\n");
  CHECK(newest_name(folder.path()) == "s000000030-g2");
  const CheckpointSearch search = search_checkpoints(folder.path());
  CHECK(search.usable.size() == 3);
  CHECK(search.highest_generation == 2);
}

TEST_CASE("a checkpoint written late by a generation that was fenced off never wins") {
  Folder folder;
  ACheckpoint{.root = folder.path(), .step = 10}.commit();
  log_generation(folder.path(), 1, 0);
  log_generation(folder.path(), 2, 10);
  Folder zombie;
  const ACheckpoint late{.root = zombie.path(), .step = 50};
  late.commit();
  fs::copy(late.path(), folder / late.name());
  std::vector<RejectedCheckpoint> rejected;
  CHECK(find_newest_checkpoint(folder.path(), &rejected)->step == 10);
  REQUIRE(rejected.size() == 1);
  CHECK(rejected[0].reason == "a later generation began before this step");
  ACheckpoint{.root = folder.path(), .step = 20, .generation = 2}.commit();
  CHECK(newest_name(folder.path()) == "s000000020-g2");
}

TEST_CASE("a generation that was passed cannot commit") {
  Folder folder;
  log_generation(folder.path(), 1, 0);
  log_generation(folder.path(), 2, 10);
  const Manifest late = ACheckpoint{.root = folder.path(), .step = 50}.manifest_with_shards();
  CHECK_THAT(commit_checkpoint(folder.path(), late).reason(),
             ContainsSubstring("generation 2 has taken over"));
  CHECK(newest_name(folder.path()) == "none");
}

TEST_CASE("without the log the lineage of the highest generation decides") {
  Folder folder;
  ACheckpoint{.root = folder.path(), .step = 50}.commit();
  ACheckpoint{.root = folder.path(), .step = 20, .generation = 3, .lineage = {{1, 0}, {3, 10}}}
      .commit();
  CHECK(newest_name(folder.path()) == "s000000020-g3");
}

TEST_CASE("the lineage rule holds for every order of forks") {
  const std::vector<GenerationFork> forks{{4, 25}, {2, 10}, {3, 40}};
  CHECK(is_on_lineage(10, 1, forks));
  CHECK_FALSE(is_on_lineage(11, 1, forks));
  CHECK(is_on_lineage(25, 2, forks));
  CHECK_FALSE(is_on_lineage(26, 2, forks));
  CHECK_FALSE(is_on_lineage(40, 3, forks));
  CHECK(is_on_lineage(1000, 4, forks));
  CHECK(is_on_lineage(1000, 1, {}));
}

TEST_CASE("a quarantined checkpoint is never chosen, even when its certificate is lost") {
  Folder folder;
  ACheckpoint{.root = folder.path(), .step = 10}.commit();
  const ACheckpoint bad{.root = folder.path(), .step = 20};
  bad.commit();
  REQUIRE(quarantine_checkpoint(folder.path(), {bad.name(), "integrity", 1}, "a test").ok());
  CHECK(newest_name(folder.path()) == "s000000010-g1");
  fs::remove(bad.path() + "/cert.json");
  CHECK(newest_name(folder.path()) == "s000000010-g1");
  fs::remove(folder / "resume_log.jsonl");
  CHECK(newest_name(folder.path()) == "s000000020-g1");
}

TEST_CASE("a manifest in a directory of another name is refused") {
  Folder folder;
  const ACheckpoint saved{.root = folder.path(), .step = 10};
  saved.commit();
  fs::rename(saved.path(), folder / "s000000090-g1");
  CHECK(newest_name(folder.path()) == "none");
}

TEST_CASE("retention keeps the newest, takes orphans of the past, and nothing else") {
  Folder folder;
  for (const std::uint64_t step : {10, 20, 30, 40, 50}) {
    ACheckpoint{.root = folder.path(), .step = step, .generation = 2, .lineage = {{2, 0}}}.commit();
  }
  const auto orphan = [&](const char* name) { put(folder / (std::string(name) + "/shard"), "x"); };
  orphan("s000000015-g1");
  orphan("s000000045-g2");
  orphan("s000000060-g2");
  put(folder / "s000000005-g1/manifest.json", "damaged, but somebody may want to look at it");
  put(folder / "mine.txt", "x");
  const auto gone = collect_checkpoints(folder.path(), {3, 2, 50});
  REQUIRE(gone.ok());
  CHECK(gone.value() == std::vector<std::string>{"s000000020-g2", "s000000010-g2", "s000000015-g1",
                                                 "s000000045-g2"});
  for (const char* name : {"s000000030-g2", "s000000040-g2", "s000000050-g2", "s000000060-g2",
                           "s000000005-g1", "mine.txt"}) {
    CHECK(fs::exists(folder / name));
  }
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    CHECK_FALSE(entry.path().filename().string().starts_with(".trash"));
  }
  CHECK(search_checkpoints(folder.path()).usable.size() == 3);
}

TEST_CASE("retention keeps the checkpoints with the best recent loss, however many worse follow") {
  Folder folder;
  const double losses[] = {5, 3, 4, 610415, 610415, std::nan("")};
  for (std::uint64_t i = 0; i < 6; ++i) {
    ACheckpoint{.root = folder.path(), .step = 10 * (i + 1), .loss_ema = losses[i]}.commit();
  }
  const auto gone = collect_checkpoints(folder.path(), {2, 1, 60});
  REQUIRE(gone.ok());
  CHECK(gone.value() == std::vector<std::string>{"s000000040-g1", "s000000010-g1"});
}

TEST_CASE("of checkpoints with equal losses the newest are the best") {
  Folder folder;
  for (const std::uint64_t step : {10, 20, 30, 40, 50}) {
    ACheckpoint{.root = folder.path(), .step = step, .loss_ema = step < 40 ? 2.0 : 3.0}.commit();
  }
  const auto gone = collect_checkpoints(folder.path(), {2, 1, 50});
  REQUIRE(gone.ok());
  CHECK(gone.value() == std::vector<std::string>{"s000000010-g1"});
}

TEST_CASE("a directory without a manifest is an orphan from before the latest save, not of it") {
  Folder folder;
  ACheckpoint{.root = folder.path(), .step = 30, .generation = 2, .lineage = {{2, 0}}}.commit();
  const auto orphan = [&](const char* name) { put(folder / (std::string(name) + "/shard"), "x"); };
  orphan("s000000040-g2");
  orphan("s000000050-g2");
  orphan("s000000051-g2");
  orphan("s000000090-g1");
  const auto gone = collect_checkpoints(folder.path(), {3, 2, 50});
  REQUIRE(gone.ok());
  CHECK(gone.value() == std::vector<std::string>{"s000000040-g2", "s000000090-g1"});
  CHECK(fs::exists(folder / "s000000050-g2"));
  CHECK(fs::exists(folder / "s000000051-g2"));
}

TEST_CASE("retention never goes below two, and an old generation deletes nothing") {
  Folder folder;
  for (const std::uint64_t step : {10, 20, 30}) {
    ACheckpoint{.root = folder.path(), .step = step}.commit();
  }
  log_generation(folder.path(), 2, 30);
  CHECK_FALSE(collect_checkpoints(folder.path(), {2, 1, 30}).ok());
  CHECK(search_checkpoints(folder.path()).usable.size() == 3);
  REQUIRE(collect_checkpoints(folder.path(), {0, 2, 30}).ok());
  CHECK(search_checkpoints(folder.path()).usable.size() == 2);
}

TEST_CASE("nothing is deleted while the log that tells good from quarantined cannot be read") {
  Folder folder;
  for (const std::uint64_t step : {10, 20, 30, 40}) {
    ACheckpoint{.root = folder.path(), .step = step}.commit();
  }
  for (const char* name : {"s000000030-g1", "s000000040-g1"}) {
    REQUIRE(quarantine_checkpoint(folder.path(), {name, "manual"}, "").ok());
    fs::remove(folder / (std::string(name) + "/cert.json"));
  }
  fs::rename(folder / "resume_log.jsonl", folder / "log");
  fs::create_directory(folder / "resume_log.jsonl");
  CHECK_THAT(collect_checkpoints(folder.path(), {2, 1, 40}).reason(),
             ContainsSubstring("resume_log.jsonl"));
  CHECK(fs::exists(folder / "s000000010-g1"));
  fs::remove(folder / "resume_log.jsonl");
  fs::rename(folder / "log", folder / "resume_log.jsonl");
  REQUIRE(collect_checkpoints(folder.path(), {2, 1, 40}).ok());
  CHECK(fs::exists(folder / "s000000010-g1"));
}

TEST_CASE("a checkpoint that cannot be removed does not keep the others") {
  Folder folder;
  for (const std::uint64_t step : {10, 20, 30, 40}) {
    ACheckpoint{.root = folder.path(), .step = step}.commit();
  }
  put(folder / ".trash-s000000020-g1/in_the_way", "x");
  CHECK_THAT(collect_checkpoints(folder.path(), {2, 1, 40}).reason(),
             ContainsSubstring("s000000020-g1: cannot be renamed"));
  CHECK_FALSE(fs::exists(folder / "s000000010-g1"));
  REQUIRE(collect_checkpoints(folder.path(), {2, 1, 40}).ok());
  CHECK_FALSE(fs::exists(folder / "s000000020-g1"));
}

TEST_CASE("paths that mean the same are spelled alike") {
  const std::string here = fs::current_path().string();
  CHECK(normal_path("a/b") == here + "/a/b");
  CHECK(normal_path("./a//x/../b/") == here + "/a/b");
  CHECK(normal_path("/a/b/") == "/a/b");
  CHECK(normal_path("/a/./b/..") == "/a");
  CHECK(normal_path("/") == "/");
  CHECK(normal_path(".") == here);
}
