// Checkpoints of runs whose ranks come, go, die and sleep.

#include <sys/wait.h>

#include <set>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/checkpoint/verify.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "tests/catch.h"
#include "tests/runtime/an_elastic_job.h"

using namespace muster;
using namespace muster::test;

namespace fs = std::filesystem;

namespace {

// Slowly enough for the test to take part.
std::vector<std::string> saving(const std::string& root, const std::string& every) {
  return {"--checkpoint-dir", root, "--checkpoint-every", every, "--step-delay-ms", "20"};
}

std::set<std::string> directories(const std::string& root, bool with_manifest) {
  std::set<std::string> names;
  std::error_code code;
  for (fs::directory_iterator at(root, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!parse_checkpoint_directory_name(name)) continue;
    if (fs::exists(at->path() / checkpoint_manifest_name) == with_manifest) names.insert(name);
  }
  return names;
}

std::set<std::string> sealed(const std::string& root) {
  return directories(root, true);
}

void check_all_good(const std::string& root) {
  const CheckpointSearch search = search_checkpoints(root);
  CHECK_FALSE(search.usable.empty());
  for (const FoundCheckpoint& found : search.usable) {
    INFO(found.directory);
    CHECK(verify_checkpoint(found.path, {}).good());
  }
}

// Stops a rank that is in the middle of saving, and not its first: returns what it had not sealed.
std::string stop_in_save(ElasticJob& job, std::uint64_t rank, const std::string& root) {
  std::string caught;
  CHECK(eventually([&] {
    if (sealed(root).empty() || directories(root, false).empty()) return false;
    job.signal(rank, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until it stands
    const auto unsealed = directories(root, false);
    if (!unsealed.empty()) caught = *unsealed.rbegin();
    if (unsealed.empty()) job.signal(rank, SIGCONT);
    return !unsealed.empty();
  }));
  return caught;
}

}  // namespace

TEST_CASE("checkpoints of an elastic run change no bit of it, and a fixed run goes on from each") {
  Folder folder;
  const std::string root = folder / "ckpt";
  ElasticJob job(150, saving(root, "3"));
  for (const std::uint64_t rank : {0, 1, 2, 3}) job.start(rank, {"--keep", "100"});
  job.members({0});
  job.wait_for_step(0, 10);
  job.members({0, 1});
  job.wait_for_step(1, 20);
  job.members({0, 1, 2, 3});
  job.wait_for_step(3, 40);
  job.kill({0});
  job.members({1, 2, 3});
  job.wait_for_step(1, 70);
  job.members({3});
  job.wait_for_all({1, 2, 3});
  const std::string whole = job.undisturbed_weights();
  CHECK(job.final_weights() == whole);

  const ResumeLog log = read_resume_log(root);
  std::vector<std::uint64_t> members_epochs;
  for (const GenerationLine& line : log.generations) {
    members_epochs.push_back(line.members_epoch.value_or(0));
    CHECK(line.generation == members_epochs.size());
  }
  CHECK(members_epochs == std::vector<std::uint64_t>{1, 2, 3, 4, 5});
  check_all_good(root);
  const CheckpointSearch search = search_checkpoints(root);
  REQUIRE(search.newest() != nullptr);
  CHECK(search.newest()->step == 150);
  CHECK(search.newest()->generation == 5);
  CHECK(search.newest(CheckpointGrade::sane) == search.newest());
  std::set<std::uint64_t> tried;  // one of each generation
  for (const FoundCheckpoint& found : search.usable) {
    if (!tried.insert(found.generation).second) continue;
    CHECK(job.fixed_weights({"--resume", found.path}) == whole);
  }
  CHECK(tried.size() >= 2);
}

TEST_CASE("after the loss of all ranks a fixed and an elastic run go on from the newest one") {
  Folder folder;
  const std::string root = folder / "ckpt";
  ElasticJob job(200, saving(root, "3"));
  for (const std::uint64_t rank : {0, 1}) job.start(rank);
  job.members({0, 1});
  job.wait_for_step(1, 30);
  CHECK(eventually([&] { return find_newest_checkpoint(root).has_value(); }));
  job.kill({0, 1});
  const auto newest = find_newest_checkpoint(root);
  REQUIRE(newest);
  fs::copy(root, folder / "copy", fs::copy_options::recursive);
  for (const std::uint64_t rank : {2, 3}) job.start(rank, {"--resume", "auto"});
  job.members({2, 3});
  job.wait_for_all({2, 3});
  CHECK(read_resume_log(root).generations.back().from == newest->directory);
  const std::string whole = job.undisturbed_weights();
  CHECK(job.final_weights() == whole);
  auto resumed = saving(folder / "copy", "3");
  resumed.insert(resumed.end(), {"--resume", "auto"});
  CHECK(job.fixed_weights(resumed) == whole);
  CHECK(read_resume_log(folder / "copy").generations.back().from == newest->directory);
}

TEST_CASE("a leading rank that is killed while it saves leaves what was sealed before") {
  Folder folder;
  const std::string root = folder / "ckpt";
  ElasticJob job(200, saving(root, "2"));
  for (const std::uint64_t rank : {0, 1}) job.start(rank);
  job.members({0, 1});
  job.wait_for_step(0, 20);
  const std::string unsealed = stop_in_save(job, 0, root);
  const auto before = find_newest_checkpoint(root);
  REQUIRE(before);
  job.kill({0});
  check_all_good(root);
  CHECK(find_newest_checkpoint(root)->directory == before->directory);
  job.members({1});
  job.wait_for_all({1});
  CHECK(job.final_weights() == job.undisturbed_weights());
  CHECK(find_newest_checkpoint(root)->step == 200);
  CHECK(sealed(root).count(unsealed) == 0);
  CHECK(directories(root, false).empty());  // it was swept
  check_all_good(root);
}

TEST_CASE("a leading rank that slept and was dropped neither seals nor deletes anything") {
  const bool is_alone = GENERATE(true, false);
  CAPTURE(is_alone);
  Folder folder;
  const std::string root = folder / "ckpt";
  ElasticJob job(200, saving(root, "2"));
  job.start(0);
  if (!is_alone) job.start(1, {"--peer-timeout", "3"});
  is_alone ? job.members({0}) : job.members({0, 1});
  job.wait_for_step(0, 20);
  const std::string unsealed = stop_in_save(job, 0, root);
  if (is_alone) job.start(1, {"--resume", "auto"});
  job.members({1});
  job.wait_for_all({1});
  const std::set<std::string> before = sealed(root);
  const std::string log = content_of(root + "/" + checkpoint_log_name);
  job.signal(0, SIGCONT);
  job.wait_for_all({0});
  CHECK(sealed(root) == before);
  CHECK(before.count(unsealed) == 0);
  CHECK(content_of(root + "/" + checkpoint_log_name) == log);
  CHECK(find_newest_checkpoint(root)->step == 200);
  check_all_good(root);
  CHECK(job.final_weights() == job.undisturbed_weights());
}

TEST_CASE("SIGTERM to all ranks ends an elastic run with a checkpoint of its last step") {
  Folder folder;
  const std::string root = folder / "ckpt";
  ElasticJob job(150, saving(root, "1000"));
  for (const std::uint64_t rank : {0, 1}) job.start(rank);
  job.members({0, 1});
  job.wait_for_step(0, 10);
  job.signal(0, SIGTERM);
  job.signal(1, SIGTERM);
  for (const std::uint64_t rank : {0, 1}) CHECK(job.wait(rank).code == 143);
  const auto last = find_newest_checkpoint(root);
  REQUIRE(last);
  CHECK(last->step == job.step(0));
  CHECK(last->step == job.step(1));
  for (const std::uint64_t rank : {2, 3}) job.start(rank, {"--resume", "auto"});
  job.members({2, 3});
  job.wait_for_all({2, 3});
  CHECK(job.final_weights() == job.undisturbed_weights());
}

TEST_CASE("one rank that gets SIGTERM leaves a checkpoint, and the others go on") {
  Folder folder;
  const std::string root = folder / "ckpt";
  ElasticJob job(150, saving(root, "1000"));
  for (const std::uint64_t rank : {0, 1}) job.start(rank);
  job.members({0, 1});
  job.wait_for_step(0, 10);
  job.signal(0, SIGTERM);
  CHECK(job.wait(0).code == 143);
  const auto left = find_newest_checkpoint(root);
  REQUIRE(left);
  CHECK(left->step == job.step(0));
  job.members({1});
  job.wait_for_all({1});
  CHECK(job.final_weights() == job.undisturbed_weights());
}

TEST_CASE("ranks that share no checkpoint directory save on the node of the one that leads") {
  Folder folder;
  ElasticJob job;
  job.start(0, saving(folder / "a", "3"));
  job.start(1, saving(folder / "b", "3"));
  job.members({0, 1});
  job.wait_for_step(1, 20);
  job.kill({0});
  job.members({1});
  job.wait_for_all({1});
  check_all_good(folder / "a");
  check_all_good(folder / "b");
  const auto first = find_newest_checkpoint(folder / "a");
  const auto last = find_newest_checkpoint(folder / "b");
  REQUIRE((first && last));
  CHECK(last->step == 60);
  CHECK(last->generation > first->generation);
  const std::string whole = job.undisturbed_weights();
  CHECK(job.final_weights() == whole);
  // Each looks into its own directory; what was seen of the later generation decides.
  for (const std::string own : {"a", "b"}) {
    auto options = saving(folder / own, "3");
    options.insert(options.end(), {"--resume", "auto"});
    job.start(own == "a" ? 2 : 3, options);
  }
  job.members({2, 3});
  job.wait_for_all({2, 3});
  CHECK(job.final_weights() == whole);
}

TEST_CASE("a rank that joins does not bring back a checkpoint that the others went on from") {
  Folder folder;
  const std::string root = folder / "ckpt";
  ElasticJob job(400, saving(root, "3"));
  job.start(0);
  job.members({0});
  job.wait_for_step(0, 20);
  job.start(1, {"--resume", "auto"});
  job.members({1, 0});  // it even leads
  job.wait_for_all({0, 1});
  CHECK(job.final_weights() == job.undisturbed_weights());
  // Its epoch went on from where the other one was, not from its checkpoint.
  const ResumeLog log = read_resume_log(root);
  REQUIRE(log.generations.size() == 2);
  CHECK(log.generations[1].reason == "members");
  CHECK(log.generations[1].fork_step >= 20);
}

TEST_CASE("an elastic run that cannot make its checkpoint directory does not start") {
  Folder folder;
  put(folder / "file", "");
  const Ended refused =
      Trainer(folder)
          .with("RANK", "0")
          .with("MUSTER_MEMBERS", folder / "members.json")
          .run(0, {"--checkpoint-dir", folder / "file/ckpt", "--out", folder / "out"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("file/ckpt"));
}
