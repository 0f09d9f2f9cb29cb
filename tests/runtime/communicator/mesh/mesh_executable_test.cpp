// The real muster-train on several ranks without mpirun.

#include <signal.h>

#include <cstdlib>
#include <cstring>

#include "runtime/protocol/heartbeat.h"
#include "tests/catch.h"
#include "tests/runtime/a_trainer.h"
#include "tests/runtime/folder.h"
#include "tests/runtime/free_port.h"

using namespace muster;
using namespace muster::test;

namespace {

// As a launcher starts ranks: each a process of its own, told its place by the environment.
class OwnRanks {
 public:
  OwnRanks(const Folder& folder, std::size_t size) {
    const std::string port = std::to_string(free_port());
    for (std::size_t r = 0; r < size; ++r) {
      const std::string rank = std::to_string(r);
      logs_.push_back(std::make_unique<Folder>());
      trainers_.push_back(std::make_unique<Trainer>(*logs_.back()));
      trainers_.back()
          ->with("RANK", rank)
          .with("WORLD_SIZE", std::to_string(size))
          .with("MASTER_ADDR", "127.0.0.1")
          .with("MASTER_PORT", port)
          .with("MUSTER_HEARTBEAT", folder / ("beat" + rank));
    }
  }

  void through(const std::string& script) {
    for (const auto& trainer : trainers_) trainer->through(script);
  }
  void start(const std::vector<std::string>& options) {
    for (const auto& trainer : trainers_) pids_.push_back(trainer->start(0, options));
  }
  void signal(std::size_t rank, int number) { ::kill(pids_[rank], number); }
  Ended wait(std::size_t rank) { return trainers_[rank]->wait(pids_[rank]); }

 private:
  std::vector<std::unique_ptr<Folder>> logs_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
  std::vector<pid_t> pids_;
};

}  // namespace

TEST_CASE("ranks without mpirun end in the bytes of those with it") {
  Folder folder;
  const std::vector<std::string> job{"--steps", "8", "--deterministic", "--out"};
  auto with_mpi = job;
  with_mpi.push_back(folder / "mpi");
  REQUIRE(Trainer(folder).run(2, with_mpi).code == 0);
  OwnRanks ranks(folder, 2);
  auto own = job;
  own.push_back(folder / "own");
  ranks.start(own);
  for (std::size_t r = 0; r < 2; ++r) {
    const Ended ended = ranks.wait(r);
    INFO(ended.output);
    CHECK(ended.code == 0);
  }
  CHECK(weights(folder, "own") == weights(folder, "mpi"));
}

TEST_CASE("a killed rank ends the others at once, and they say which one it was") {
  Folder folder;
  OwnRanks ranks(folder, 3);
  ranks.start({"--steps", "1000000", "--out", folder / "out"});
  CHECK(eventually([&] { return read_heartbeat(folder / "beat0") >= std::uint64_t{3}; }));
  ranks.signal(1, SIGKILL);
  for (const std::size_t r : {0, 2}) {
    const Ended ended = ranks.wait(r);
    CHECK(ended.code == 1);
    CHECK_THAT(ended.output, ContainsSubstring("rank " + std::to_string(r) + ": rank 1 is lost:"));
  }
  CHECK(ranks.wait(1).code == 137);
}

TEST_CASE("ranks that were given other options end before a step, and say which and who") {
  const auto [option, sentence] = GENERATE(
      std::pair{"--seed 7", "--seed differs between ranks: 1 on rank 0, rank 2; 7 on rank 1: give"},
      std::pair{"--lr 0.5", "--lr differs between ranks: 0.001"},
      std::pair{"--batch 9", "--batch differs between ranks: 8 on rank 0, rank 2; 9 on rank 1"},
      std::pair{"--clip 3 --steps 9 --micro-batch 1",
                "--clip differs between ranks: 1 on rank 0, rank 2; 3 on rank 1 (so does "
                "--micro-batch, --steps): give all ranks the same options"});
  Folder folder;
  OwnRanks ranks(folder, 3);
  ranks.through(R"([ "$RANK" = 1 ] || exec "$0" "$@"; exec "$0" "$@" )" + std::string(option));
  ranks.start({"--steps", "8", "--batch", "8", "--out", folder / "out"});
  for (std::size_t r = 0; r < 3; ++r) {
    const Ended ended = ranks.wait(r);
    INFO(ended.output);
    CHECK(ended.code == 2);
    if (r == 0) CHECK_THAT(ended.output, ContainsSubstring(sentence));
    CHECK_FALSE(read_heartbeat(folder / ("beat" + std::to_string(r))));
  }
}

TEST_CASE("ranks measure what their all-reduce takes, and the first one says it") {
  Folder folder;
  OwnRanks ranks(folder, 2);
  ranks.through(R"(exec "$0" probe-allreduce "$@")");
  ranks.start({});
  const Ended first = ranks.wait(0);
  INFO(first.output);
  CHECK(first.code == 0);
  for (const char* metric : {"collective_latency_us - ", "collective_1mib_gb_per_s - ",
                             "collective_64mib_gb_per_s - "}) {
    const std::size_t at = first.output.find(metric);
    REQUIRE(at != std::string::npos);
    CHECK(std::strtod(first.output.c_str() + at + std::strlen(metric), nullptr) > 0);
  }
  const Ended second = ranks.wait(1);
  CHECK(second.code == 0);
  CHECK(second.output.empty());
}

TEST_CASE("one rank alone has no all-reduce to measure") {
  Folder folder;
  const Ended ended = Trainer(folder).run_alone({"probe-allreduce"});
  CHECK(ended.code == 0);
  CHECK_THAT(ended.output, ContainsSubstring("collective_latency_us - error there is one rank"));
}

TEST_CASE("ranks that do not know where to meet say what is missing") {
  Folder folder;
  const Ended ended =
      Trainer(folder).with("WORLD_SIZE", "2").with("RANK", "1").run(0, {"--out", folder / "out"});
  CHECK(ended.code == 2);
  CHECK_THAT(ended.output, ContainsSubstring("MASTER_ADDR and MASTER_PORT are not all set"));
}
