// Ranks as processes that share no checkpoint directory, and ranks that stop answering.
//
// A node is a mount namespace in which the folder of that node stands at the path that all use.

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/protocol/heartbeat.h"
#include "tests/catch.h"
#include "tests/runtime/a_trainer.h"
#include "tests/runtime/folder.h"
#include "tests/skip.h"

using namespace muster;
using namespace muster::test;

namespace {

bool has_mount_namespaces() {
  return std::system("unshare -m mount --bind /tmp /tmp 2>/dev/null") == 0;
}

// $NODES names the folder of each rank's node; it is mounted over $ROOT/local.
constexpr const char* on_its_node =
    "node=$(echo $NODES | cut -d ' ' -f $((OMPI_COMM_WORLD_RANK + 1)));"
    "exec unshare -m sh -c 'mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"'"
    " sh \"$ROOT/$node\" \"$ROOT/local\" \"$0\" \"$@\"";

class Nodes {
 public:
  explicit Nodes(const Folder& folder) : folder_(folder), trainer_(folder) {
    for (const char* name : {"a", "b", "c", "local"}) {
      std::filesystem::create_directories(folder / name);
    }
    trainer_.through(on_its_node).with("ROOT", folder.path());
  }

  Ended run(const std::string& nodes, const std::string& steps, const std::string& resume) {
    return trainer_.with("NODES", nodes)
        .run(2, {"--steps", steps, "--checkpoint-every", "5", "--checkpoint-dir",
                 folder_ / "local/ckpt", "--resume", resume, "--out", folder_ / "out"});
  }

 private:
  const Folder& folder_;
  Trainer trainer_;
};

std::string newest(const std::string& root) {
  const auto found = find_newest_checkpoint(root);
  return found ? found->directory : "none";
}

}  // namespace

TEST_CASE("a run whose nodes share no disk continues on other nodes while one has the checkpoint") {
  if (!has_mount_namespaces()) {
    skip_test("no mount namespaces here");
    return;
  }
  Folder folder;
  Nodes nodes(folder);
  const Ended first = nodes.run("a b", "10", "auto");
  INFO(first.output);
  REQUIRE(first.code == 0);
  CHECK(newest(folder / "a/ckpt") == "s000000010-g1");
  CHECK(newest(folder / "b/ckpt") == "none");

  const Ended swapped = nodes.run("b a", "15", "auto");
  INFO(swapped.output);
  REQUIRE(swapped.code == 0);
  CHECK_THAT(swapped.output, ContainsSubstring("at step 10"));
  CHECK(newest(folder / "b/ckpt") == "s000000015-g2");

  const Ended named = nodes.run("c b", "20", folder / "local/ckpt/s000000015-g2");
  INFO(named.output);
  REQUIRE(named.code == 0);
  CHECK_THAT(named.output, ContainsSubstring("at step 15"));

  const Ended gone = nodes.run("a b", "25", folder / "local/ckpt/s000000020-g3");
  CHECK(gone.code == 2);
  CHECK_THAT(gone.output,
             ContainsSubstring("no such checkpoint on the node of any rank: share it"));

  const Ended whole = Trainer(folder).run(2, {"--steps", "20", "--out", folder / "whole"});
  REQUIRE(whole.code == 0);
  CHECK(weights(folder, "out") == weights(folder, "whole"));
}

TEST_CASE("a rank that stands still ends the run after --peer-timeout") {
  Folder folder;
  Trainer trainer(folder);
  trainer.through("echo $$ >$PIDS$OMPI_COMM_WORLD_RANK; exec \"$0\" \"$@\"")
      .with("PIDS", folder / "pid")
      .with("MUSTER_HEARTBEAT", folder / "beat");
  const pid_t mpirun =
      trainer.start(2, {"--steps", "1000000", "--peer-timeout", "1", "--out", folder / "out"});
  CHECK(eventually([&] { return read_heartbeat(folder / "beat") >= std::uint64_t{3}; }));
  ::kill(std::stoi(content_of(folder / "pid1")), SIGSTOP);
  const Ended ended = trainer.wait(mpirun);
  INFO(ended.output);
  CHECK(ended.code == 1);
  CHECK_THAT(ended.output, ContainsSubstring("no answer from the other ranks for 1 s"));
}

TEST_CASE("a mistake in the environment of one rank is told by all, and none waits") {
  Folder folder;
  const Ended ended =
      Trainer(folder)
          .through("[ $OMPI_COMM_WORLD_RANK = 0 ] || export MUSTER_EPOCH=soon; exec \"$0\" \"$@\"")
          .run(2, {"--steps", "1", "--out", folder / "out"});
  CHECK(ended.code == 2);
  CHECK_THAT(ended.output, ContainsSubstring("rank 1: MUSTER_EPOCH: expected a number"));
}

TEST_CASE("SIGTERM before the first step ends the process at once, with 143 and no checkpoint") {
  Folder folder;
  std::filesystem::create_directories(folder / "ckpt");
  // The start waits for this lock, as it may wait for a slow disk or for other ranks.
  const auto lock = CheckpointLock::take(folder / "ckpt", "resume_log.jsonl");
  REQUIRE(lock.ok());
  Trainer trainer(folder);
  const pid_t pid = trainer.start(
      0, {"--steps", "100000", "--out", folder / "out", "--checkpoint-dir", folder / "ckpt"});
  CHECK(eventually(
      [&] { return content_of(folder / "output").find("windows of text") != std::string::npos; }));
  const auto begin = std::chrono::steady_clock::now();
  ::kill(pid, SIGTERM);
  const Ended ended = trainer.wait(pid);
  INFO(ended.output);
  CHECK(ended.code == 143);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
  CHECK_THAT(ended.output, ContainsSubstring("stopped by SIGTERM before the first step"));
  CHECK(newest(folder / "ckpt") == "none");
}

TEST_CASE("numbers that no option can have are refused, not wrapped around") {
  Folder folder;
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--steps", "-1"},
                                                {"--seed", "99999999999999999999"},
                                                {"--lr", "nan"},
                                                {"--clip", "inf"},
                                                {"--batch", "0"},
                                                {"--batch", "288230376151711744"},
                                                {"--steps", "1e3"},
                                                {"--width", "-5"}}) {
    std::vector<std::string> options = wrong;
    options.insert(options.end(), {"--out", folder / "out"});
    const Ended ended = Trainer(folder).run(0, options);
    CAPTURE(wrong[0], wrong[1], ended.output);
    CHECK(ended.code == 2);
    CHECK_THAT(ended.output, ContainsSubstring(wrong[0]) && ContainsSubstring("xpected"));
  }
}
