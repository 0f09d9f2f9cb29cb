// What of a job's files is asked for and built on a node, and what becomes of it when the line is
// lost or the attempt ends.
#include <sys/wait.h>

#include <filesystem>

#include "launcher/agent/node/child_tasks.h"
#include "launcher/agent/staging.h"
#include "launcher/staging/content_hash.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/launcher/agent/heard_line.h"

using namespace muster;

namespace {

const std::string staged_bytes = "0123456789";

struct StagingNode {
  StagingNode() {
    auto opened = open_run_directory(folder.path(), "c", NodeId{"n7"});
    REQUIRE(opened);
    run.emplace(std::move(*opened));
    staging.emplace(*run, heard.line, tasks);
    request.trees.push_back({"inputs/data", {a_file("a.bin", staged_bytes)}, false});
  }

  static TreeEntry a_file(const std::string& path, const std::string& text) {
    return {TreeEntry::Kind::file, path, 0644, static_cast<std::int64_t>(text.size()),
            content_hash_of(text), {}};
  }
  const std::string& hash() const { return request.trees[0].entries[0].hash; }
  std::string job() const { return layout_of(*run, key).job; }
  void ask() {
    staging->stage(request);
    const auto wanted = heard.expect<WantBlobs>();
    CHECK(wanted.hashes == std::vector<std::string>{hash()});
  }
  void send(std::int64_t offset, bool is_last, const std::string& bytes) {
    staging->receive(BlobData{hash(), offset, is_last}, bytes);
  }
  std::string end() {
    const auto done = heard.await<StageDone>();
    return done ? done->error : "none";
  }

  FakeRoot folder;
  HeardLine heard;
  ChildTasks tasks{heard.io};
  std::optional<RunDirectory> run;
  std::optional<AttemptStaging> staging;
  AttemptKey key{JobId{"job"}, AttemptId{2}};
  StageTrees request{JobId{"job"}, AttemptId{2}, {}};
};

}  // namespace

TEST_CASE("a tree is built where nothing of its job was, once, from what was sent in parts") {
  StagingNode node;
  CHECK_FALSE(node.staging->knows(JobId{"job"}));
  node.request.trees.push_back({"code", {StagingNode::a_file("run.sh", staged_bytes)}, true});
  node.ask();
  CHECK(node.staging->knows(JobId{"job"}));
  CHECK_FALSE(node.staging->knows(JobId{"jo"}));
  node.send(0, false, "01234");
  CHECK(node.heard.is_silent_about<StageDone>());
  node.send(5, true, "56789");
  CHECK(node.staging->is_busy(node.key));
  CHECK(node.end() == "");
  CHECK_FALSE(node.staging->is_busy(node.key));
  CHECK(read_file(node.job() + "/inputs/data/a.bin") == staged_bytes);
  CHECK(read_file(node.job() + "/code-2/run.sh") == staged_bytes);
  CHECK(std::filesystem::is_directory(node.job() + "/outputs"));
  std::filesystem::remove_all(node.job());
  node.staging->stage(node.request);
  CHECK(node.end() == "");
  CHECK_FALSE(std::filesystem::exists(node.job()));  // it was staged before
}

TEST_CASE("what came of a blob before the line was lost counts for nothing over the next one") {
  StagingNode node;
  node.ask();
  node.send(0, false, "01234");
  node.staging->line_lost();
  node.heard.connect();
  node.staging->poll(boot_time() + 2 * AttemptStaging::stall_limit);  // nothing is waited for
  CHECK(node.heard.is_silent_about<StageDone>());
  node.send(5, true, "56789");
  node.ask();
  node.send(0, true, staged_bytes);
  CHECK(node.end() == "");
}

TEST_CASE("blobs that do not come fail what waits for them, while somebody could send any") {
  StagingNode node;
  node.ask();
  const BootTime now = boot_time();
  node.staging->poll(now + AttemptStaging::stall_limit - std::chrono::seconds{2});
  CHECK(node.heard.is_silent_about<StageDone>());
  node.staging->poll(now + AttemptStaging::stall_limit + std::chrono::seconds{2});
  CHECK_THAT(node.end(), ContainsSubstring("node n7") && ContainsSubstring("'inputs/data/a.bin'"));
  CHECK_FALSE(node.staging->knows(JobId{"job"}));
}

TEST_CASE("an attempt that ends is staged no further, and nothing is told of it") {
  StagingNode node;
  node.staging->cancel(node.key);  // which is not staged at all
  SECTION("while it waits for a blob") {
    node.ask();
    node.staging->cancel(node.key);
    CHECK_FALSE(node.staging->is_busy(node.key));
    node.send(0, true, staged_bytes);
  }
  SECTION("while a child looks, which is waited for") {
    node.staging->stage(node.request);
    node.staging->cancel(node.key);
    CHECK(node.staging->is_busy(node.key));
    CHECK(node.heard.turn_until([&] { return !node.staging->is_busy(node.key); }));
  }
  CHECK_FALSE(node.staging->knows(JobId{"job"}));
  CHECK(node.heard.is_silent_about<StageDone>());
  CHECK(node.heard.is_silent_about<WantBlobs>());
}
