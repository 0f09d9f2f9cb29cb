// The real muster-train under the real mpirun: killed, stopped, refused.

#include <signal.h>

#include "runtime/checkpoint/choose.h"
#include "runtime/protocol/heartbeat.h"
#include "runtime/protocol/lease.h"
#include "tests/catch.h"
#include "tests/runtime/a_trainer.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

TEST_CASE("two ranks killed in mid run and started again end in the bytes of a reference run") {
  Folder folder;
  Trainer trainer(folder);
  const Ended whole = trainer.run(2, {"--steps", "30", "--out", folder / "whole"});
  INFO(whole.output);
  REQUIRE(whole.code == 0);
  const std::vector<std::string> job{"--steps",
                                     "30",
                                     "--out",
                                     folder / "job",
                                     "--checkpoint-every",
                                     "7",
                                     "--fail-at-step",
                                     "18",
                                     "--fail-rank",
                                     "1"};
  trainer.with("MUSTER_JOB", "a-job").with("MUSTER_CHECKPOINT_DIR", folder / "ckpt");
  const Ended killed = trainer.with("MUSTER_ATTEMPT", "0").with("MUSTER_EPOCH", "1").run(2, job);
  CHECK(killed.code == 137);
  const auto found = find_newest_checkpoint(folder / "ckpt");
  REQUIRE(found);
  CHECK(found->directory == "s000000014-g1");
  const Ended resumed = trainer.with("MUSTER_ATTEMPT", "1")
                            .with("MUSTER_EPOCH", "2")
                            .with("MUSTER_RESUME_FROM", found->path)
                            .run(2, job);
  INFO(resumed.output);
  REQUIRE(resumed.code == 0);
  CHECK_THAT(resumed.output, ContainsSubstring("at step 14"));
  CHECK(weights(folder, "job") == weights(folder, "whole"));
}

TEST_CASE("a plain process, two and four ranks end in the same bytes") {
  Folder folder;
  for (const int ranks : {0, 2, 4}) {
    const std::string out = std::to_string(ranks);
    const Ended ended =
        Trainer(folder).run(ranks, {"--steps", "6", "--deterministic", "--out", folder / out});
    INFO(ended.output);
    REQUIRE(ended.code == 0);
    CHECK(weights(folder, out) == weights(folder, "0"));
  }
}

TEST_CASE("a run killed from outside at any moment resumes to the same bytes") {
  Folder folder;
  const Ended whole = Trainer(folder).run(0, {"--steps", "40", "--out", folder / "whole"});
  REQUIRE(whole.code == 0);
  for (const std::uint64_t at : {3, 11, 26}) {
    Trainer trainer(folder);
    const std::string name = std::to_string(at);
    trainer.with("MUSTER_HEARTBEAT", folder / ("beat" + name));
    const std::vector<std::string> job{"--steps",
                                       "40",
                                       "--out",
                                       folder / name,
                                       "--checkpoint-every",
                                       "1",
                                       "--resume",
                                       "auto",
                                       "--checkpoint-dir",
                                       folder / ("ckpt" + name),
                                       "--step-delay-ms",
                                       "2"};
    const pid_t pid = trainer.start(0, job);
    CHECK(eventually([&] { return read_heartbeat(folder / ("beat" + name)) >= at; }));
    ::kill(pid, SIGKILL);
    CHECK(trainer.wait(pid).code == 137);
    const Ended resumed = trainer.run(0, job);
    INFO(resumed.output);
    REQUIRE(resumed.code == 0);
    CHECK(weights(folder, name) == weights(folder, "whole"));
  }
}

TEST_CASE("SIGTERM ends the step, seals a checkpoint and exits with 143") {
  Folder folder;
  Trainer trainer(folder);
  trainer.with("MUSTER_HEARTBEAT", folder / "beat");
  const pid_t pid = trainer.start(
      0, {"--steps", "100000", "--out", folder / "out", "--checkpoint-dir", folder / "ckpt"});
  CHECK(eventually([&] { return read_heartbeat(folder / "beat") >= std::uint64_t{3}; }));
  ::kill(pid, SIGTERM);
  const Ended ended = trainer.wait(pid);
  INFO(ended.output);
  CHECK(ended.code == 143);
  const auto found = find_newest_checkpoint(folder / "ckpt");
  REQUIRE(found);
  CHECK(found->step == read_heartbeat(folder / "beat"));
}

TEST_CASE("a rank ends when its lease is over, and writes nothing more") {
  Folder folder;
  auto lease = Lease::create();
  REQUIRE(lease);
  lease->grant(boot_time() + std::chrono::hours{1});
  Trainer trainer(folder);
  trainer.with("MUSTER_LEASE", lease->path()).with("MUSTER_HEARTBEAT", folder / "beat");
  const pid_t pid =
      trainer.start(0, {"--steps", "100000", "--out", folder / "out", "--checkpoint-dir",
                        folder / "ckpt", "--checkpoint-every", "1", "--step-delay-ms", "5"});
  REQUIRE(eventually([&] { return read_heartbeat(folder / "beat") >= std::uint64_t{3}; }));
  SECTION("as it runs") {
    lease->grant(boot_time());
  }
  SECTION("as it wakes up after a standstill") {
    ::kill(pid, SIGSTOP);
    lease->grant(boot_time());
    ::kill(pid, SIGCONT);
  }
  const Ended ended = trainer.wait(pid);
  INFO(ended.output);
  CHECK(ended.code == 143);
  CHECK_THAT(ended.output, ContainsSubstring("the lease of this process has expired"));
}

TEST_CASE("of three ranks the one whose weights differ says so, and the run ends with 3") {
  Folder folder;
  const Ended ended = Trainer(folder).run(
      3, {"--steps", "40", "--batch", "8", "--out", folder / "out", "--replica-check-every", "4",
          "--flip-at-step", "9", "--fail-rank", "1"});
  INFO(ended.output);
  CHECK(ended.code == 3);
  CHECK_THAT(ended.output, ContainsSubstring("muster-train: rank 1 on "));
  CHECK_THAT(ended.output, ContainsSubstring("hardware in doubt: its weights differ"));
  CHECK_THAT(ended.output, !ContainsSubstring("rank 0 on "));
  CHECK_THAT(ended.output,
             ContainsSubstring("muster-train: ends because the hardware of rank 1 is in doubt"));
}

TEST_CASE("mistakes end with exit code 2 and one sentence") {
  Folder folder;
  const Ended none = Trainer(folder).run(0, {"--data", "/gone"});
  CHECK(none.code == 2);
  CHECK(none.output == "muster-train: --data: /gone does not exist\n");
  CHECK(Trainer(folder).run(0, {"--stepps", "3"}).code == 2);
  CHECK(Trainer(folder).run(0, {"--help"}).code == 0);
  const Ended alone = Trainer(folder).with("WORLD_SIZE", "2").run(0, {"--out", folder / "out"});
  CHECK(alone.code == 2);
  CHECK_THAT(alone.output, ContainsSubstring("WORLD_SIZE says 2 ranks, but RANK, MASTER_ADDR"));
  // Processes of a launcher that it does not understand would each train all by itself.
  for (const char* name : {"PMI_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_RANK"}) {
    const Ended many = Trainer(folder).with(name, "2").run(0, {"--out", folder / "out"});
    CHECK(many.code == 2);
    CHECK_THAT(many.output, ContainsSubstring("as many separate worlds of one rank"));
  }
  const Ended unknown =
      Trainer(folder).with("MUSTER_EPOCH", "soon").run(0, {"--out", folder / "out"});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.output, ContainsSubstring("MUSTER_EPOCH: expected a number"));
  const Ended both = Trainer(folder).run(2, {"--heads", "3", "--out", folder / "out"});
  CHECK(both.code == 2);
  CHECK_THAT(both.output, ContainsSubstring("--heads: 3 does not divide --width 32"));
}

TEST_CASE("a rank that mpirun announced but MPI did not join is refused") {
  Folder folder;
  const Ended alone =
      Trainer(folder).with("OMPI_COMM_WORLD_SIZE", "2").run(0, {"--out", folder / "out"});
  INFO(alone.output);
  CHECK(alone.code == 2);
  CHECK_THAT(alone.output, ContainsSubstring("MPI joined 1 ranks, but mpirun announced 2"));
}
