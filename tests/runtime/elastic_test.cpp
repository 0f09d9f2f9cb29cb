// Ranks that come, go and die during a run, told by the membership file; the test is the launcher.

#include <signal.h>

#include <fstream>

#include "runtime/protocol/heartbeat.h"
#include "runtime/protocol/membership.h"
#include "tests/catch.h"
#include "tests/runtime/a_trainer.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace {

class ElasticJob {
 public:
  explicit ElasticJob(std::uint16_t first_port) : port_(first_port) {}

  // A process that waits to be made a member, and is ready for it.
  void start(std::uint64_t rank, std::vector<std::string> options = {}) {
    const std::string beat = folder_ / ("beat" + std::to_string(rank));
    auto& process = processes_[rank];
    process.trainer = std::make_unique<Trainer>(process.log);
    process.trainer->with("RANK", std::to_string(rank))
        .with("MUSTER_MEMBERS", folder_ / "members.json")
        .with("MUSTER_HEARTBEAT", beat);
    const std::vector<std::string> usual{
        "--steps", "60",    "--batch",      "8", "--step-delay-ms", "5", "--peer-timeout",
        "60",      "--out", folder_ / "out"};
    options.insert(options.begin(), usual.begin(), usual.end());
    process.pid = process.trainer->start(0, options);
    CHECK(eventually([&] { return read_heartbeat(beat).has_value(); }));
  }

  void members(const std::vector<std::uint64_t>& ranks) {
    EpochMembers epoch{++epoch_, {}};
    for (const std::uint64_t rank : ranks) {
      epoch.members.push_back(
          {rank, "127.0.0.1", static_cast<std::uint16_t>(port_ + rank), "here"});
    }
    std::ofstream(folder_ / "members.tmp") << format_membership(epoch);
    std::filesystem::rename(folder_ / "members.tmp", folder_ / "members.json");
  }

  std::uint64_t step(std::uint64_t rank) const {
    return read_heartbeat(folder_ / ("beat" + std::to_string(rank))).value_or(0);
  }
  void wait_for_step(std::uint64_t rank, std::uint64_t wanted) const {
    CHECK(eventually([&] { return step(rank) >= wanted; }));
  }
  void signal(std::uint64_t rank, int number) { ::kill(processes_[rank].pid, number); }
  Ended wait(std::uint64_t rank) { return processes_[rank].trainer->wait(processes_[rank].pid); }
  std::string final_weights() const { return weights(folder_, "out"); }

  // Of a process that trains alone.
  std::string undisturbed_weights() {
    const Ended ended = Trainer(folder_).run(
        0, {"--steps", "60", "--batch", "8", "--deterministic", "--out", folder_ / "fixed"});
    REQUIRE(ended.code == 0);
    return weights(folder_, "fixed");
  }

 private:
  struct Process {
    Folder log;
    std::unique_ptr<Trainer> trainer;
    pid_t pid = 0;
  };
  Folder folder_;
  std::uint16_t port_;
  std::map<std::uint64_t, Process> processes_;
  std::uint64_t epoch_ = 0;
};

}  // namespace

TEST_CASE("ranks that join and leave in mid run change no bit of the result") {
  ElasticJob job(29620);
  job.start(0);
  job.members({0});
  job.wait_for_step(0, 10);
  job.start(1);
  job.start(2);
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
  ElasticJob job(29630);
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

TEST_CASE("a rank that gets SIGTERM leaves after its step, and the others go on") {
  ElasticJob job(29640);
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
  ElasticJob job(29650);
  job.start(0);
  job.members({0});
  job.wait_for_step(0, 5);
  job.start(1, {"--lr", "0.5"});
  job.members({0, 1});
  const Ended refused = job.wait(1);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("rank 1 trains with other options"));
  job.members({0});
  const Ended ended = job.wait(0);
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK(job.final_weights() == job.undisturbed_weights());
}

TEST_CASE("an elastic run goes on from a checkpoint, also with a rank that joins later") {
  Folder folder;
  const Ended before =
      Trainer(folder).run(0, {"--steps", "20", "--batch", "8", "--deterministic",
                              "--checkpoint-dir", folder / "ckpt", "--out", folder / "before"});
  REQUIRE(before.code == 0);
  ElasticJob job(29660);
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
