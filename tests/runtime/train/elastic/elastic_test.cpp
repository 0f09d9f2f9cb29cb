// Ranks that come, go and die during a run, told by the membership file; the test is the launcher.

#include <signal.h>

#include "tests/catch.h"
#include "tests/runtime/an_elastic_job.h"

using namespace muster;
using namespace muster::test;

TEST_CASE("ranks that join and leave in mid run change no bit of the result") {
  ElasticJob job;
  for (const std::uint64_t rank : {0, 1, 2}) job.start(rank);
  job.members({0});
  job.wait_for_step(0, 10);
  job.members({0, 1, 2});
  job.wait_for_step(2, 25);
  job.members({2, 1});
  const Ended left = job.wait(0);
  INFO(left.output);
  CHECK(left.code == 0);
  for (const std::uint64_t rank : {1, 2}) {
    const Ended ended = job.wait(rank);
    INFO(ended.output);
    CHECK(ended.code == 0);
  }
  CHECK(job.final_weights() == job.undisturbed_weights());
}

TEST_CASE("a leading rank that is killed costs the others a step at most, and no bit") {
  ElasticJob job;
  for (const std::uint64_t rank : {0, 1, 2}) job.start(rank);
  job.members({0, 1, 2});
  job.wait_for_step(0, 20);
  job.signal(0, SIGKILL);
  CHECK(job.wait(0).code == 137);
  const std::uint64_t had = job.step(0);
  job.members({1, 2});
  job.wait_for_step(1, had + 1);
  for (const std::uint64_t rank : {1, 2}) {
    const Ended ended = job.wait(rank);
    INFO(ended.output);
    CHECK(ended.code == 0);
  }
  CHECK(job.final_weights() == job.undisturbed_weights());
}

TEST_CASE("a rank that the others believed lost takes part again when the launcher keeps it") {
  ElasticJob job(120, {"--peer-timeout", "8"});
  for (const std::uint64_t rank : {0, 1, 2}) job.start(rank);
  job.members({0, 1, 2});
  job.wait_for_step(0, 10);
  job.signal(1, SIGSTOP);
  CHECK(eventually([&] { return job.said(0, "rank 1 is lost"); }));
  job.signal(1, SIGCONT);
  job.members({0, 1, 2});
  job.wait_for_all({0, 1, 2});
  CHECK(job.final_weights() == job.undisturbed_weights());
}

TEST_CASE("a rank that gets SIGTERM leaves after its step, and the others go on") {
  ElasticJob job;
  for (const std::uint64_t rank : {0, 1}) job.start(rank);
  job.members({0, 1});
  job.wait_for_step(0, 10);
  job.signal(0, SIGTERM);
  CHECK(job.wait(0).code == 143);
  job.members({1});
  const Ended ended = job.wait(1);
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK(job.final_weights() == job.undisturbed_weights());
}

TEST_CASE("a process with other options cannot join, and the others go on without it") {
  ElasticJob job;
  job.start(0);
  job.members({0});
  job.wait_for_step(0, 5);
  job.start(1, {"--lr", "0.5"});
  job.members({0, 1});
  const Ended refused = job.wait(1);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("--lr differs between ranks: 0.00") &&
                                 ContainsSubstring(" on rank 0; 0.5 on rank 1: give all ranks"));
  job.members({0});
  const Ended ended = job.wait(0);
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK(job.final_weights() == job.undisturbed_weights());
}

TEST_CASE("a process without the secret of the attempt cannot join, nor hold up the others") {
  ElasticJob job;
  for (const std::uint64_t rank : {0, 1}) job.start(rank);
  job.start(7, {}, "a guess");
  job.members({0, 1});
  job.wait_for_step(0, 5);
  job.members({0, 1, 7});
  CHECK(eventually([&] { return job.said(0, "step 1"); }));
  job.members({1, 0});
  job.wait_for_all({0, 1});
  CHECK_FALSE(job.said(0, "3 ranks"));
  CHECK(job.step(7) == 0);
  CHECK(job.final_weights() == job.undisturbed_weights());
}

TEST_CASE("ranks that the batch cannot feed stand by, and take over from one that dies") {
  ElasticJob job(60, {"--leaves", "2"});
  for (const std::uint64_t rank : {0, 1, 2}) job.start(rank);
  job.members({0, 1});
  job.wait_for_step(0, 5);
  job.members({0, 1, 2});
  job.wait_for_step(2, 15);
  CHECK(job.said(0, "3 ranks from step"));
  CHECK(job.said(0, "warning: --batch feeds 2 ranks"));
  job.kill({0});
  job.members({1, 2});
  job.wait_for_all({1, 2});
  CHECK(job.final_weights() == job.fixed_weights({"--leaves", "2"}));
}

TEST_CASE("a member that computes wrongly is named, whatever its place, and all end with 3") {
  const std::string fault = GENERATE("weight", "gradient");
  ElasticJob job(200, {"--replica-check-every", "10", "--flip-at-step", "101", "--flip-in", fault,
                       "--fail-rank", "5"});
  for (const std::uint64_t rank : {1, 3, 5}) job.start(rank);
  job.members({1, 3});
  job.wait_for_step(1, 5);
  job.members({1, 5, 3});
  for (const std::uint64_t rank : {1, 3, 5}) {
    const Ended ended = job.wait(rank);
    INFO(ended.output);
    CHECK(ended.code == 3);
    const std::string own = "muster-train: rank 5 on ";
    const std::string peer = "muster-train: ends because the hardware of rank 5 is in doubt";
    CHECK_THAT(ended.output, ContainsSubstring(rank == 5 ? own : peer));
    CHECK_THAT(ended.output, !ContainsSubstring(rank == 5 ? peer : own));
  }
}

TEST_CASE("an elastic run goes on from a checkpoint, also with a rank that joins later") {
  Folder folder;
  const Ended before =
      Trainer(folder).run(0, {"--steps", "20", "--batch", "8", "--deterministic",
                              "--checkpoint-dir", folder / "ckpt", "--out", folder / "before"});
  REQUIRE(before.code == 0);
  ElasticJob job;
  const std::vector<std::string> resumed{"--checkpoint-dir", folder / "ckpt", "--resume", "auto"};
  job.start(0, resumed);
  job.start(1, resumed);
  job.members({0});
  job.wait_for_step(0, 25);
  job.members({0, 1});
  for (const std::uint64_t rank : {0, 1}) {
    const Ended ended = job.wait(rank);
    INFO(ended.output);
    CHECK(ended.code == 0);
    if (rank == 0) CHECK_THAT(ended.output, ContainsSubstring("epoch 1: 1 ranks from step 20"));
  }
  CHECK(job.final_weights() == job.undisturbed_weights());
}

TEST_CASE("without a peer timeout a process waits for its members as long as it takes") {
  ElasticJob job(5, {"--peer-timeout", "0"});
  job.start(0);
  job.members({0});
  job.wait_for_all({0});
}
