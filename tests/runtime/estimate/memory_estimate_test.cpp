// Estimates of memory beside what real runs take, and the commands that tell of both.

#include <sys/resource.h>
#include <sys/wait.h>

#include <cmath>
#include <memory>

#include "runtime/estimate/rank_memory.h"
#include "tests/catch.h"
#include "tests/runtime/a_trainer.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace {

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The highest resident memory of any rank of a run, in bytes.
std::uint64_t peak_of_run(std::size_t ranks, const std::string& port, const Words& options) {
  std::vector<std::unique_ptr<Folder>> folders;
  std::vector<std::unique_ptr<Trainer>> trainers;
  std::vector<pid_t> pids;
  Folder out;
  for (std::size_t r = 0; r < ranks; ++r) {
    folders.push_back(std::make_unique<Folder>());
    trainers.push_back(std::make_unique<Trainer>(*folders.back()));
    trainers.back()
        ->with("RANK", std::to_string(r))
        .with("WORLD_SIZE", std::to_string(ranks))
        .with("MASTER_ADDR", "127.0.0.1")
        .with("MASTER_PORT", port);
    pids.push_back(trainers.back()->start(
        0, options + Words{"--out", out / "out", "--checkpoint-dir", out / "checkpoints"}));
  }
  std::uint64_t highest = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    int status = 0;
    rusage used{};
    REQUIRE(wait4(pids[r], &status, 0, &used) == pids[r]);
    INFO(content_of(*folders[r] / "output"));
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    highest = std::max(highest, static_cast<std::uint64_t>(used.ru_maxrss) * 1024);
  }
  return highest;
}

double estimated(std::size_t ranks, const Words& options) {
  RankLayout layout;
  layout.ranks = layout.ranks_per_node = ranks;
  const auto memory = run_memory(options, layout, std::nullopt);
  REQUIRE(std::holds_alternative<RunMemory>(memory));
  return static_cast<double>(std::get<RunMemory>(memory).bytes);
}

}  // namespace

// What the program takes by itself is a part of both sides, so the growth over the smallest model
// is compared.
TEST_CASE("estimated memory is that of real runs within 15 percent, in every stage") {
#if defined(__SANITIZE_ADDRESS__)
  WARN("not compared: a sanitizer's own memory is a part of what a run takes");
  return;
#endif
  const Words tiny{"--layers",           "1",  "--width", "32", "--heads", "2",
                   "--context",          "32", "--batch", "2",  "--steps", "3",
                   "--checkpoint-every", "0"};
  const Words wide{
      "--layers",       "8",      "--width", "384", "--heads", "6", "--context",          "64",
      "--vocabulary",   "16384",  "--batch", "8",   "--steps", "3", "--checkpoint-every", "0",
      "--bucket-bytes", "1048576"};
  const double base = static_cast<double>(peak_of_run(2, "29631", tiny));
  const std::vector<Words> cases{{"--zero", "0"},
                                 {"--zero", "1"},
                                 {"--zero", "2"},
                                 {"--zero", "3"},
                                 {"--zero", "1", "--recompute"},
                                 {"--zero", "1", "--micro-batch", "1"}};
  for (const Words& more : cases) {
    std::string name;
    for (const std::string& word : more) name += word + " ";
    const Words options = wide + more;
    const double grown = static_cast<double>(peak_of_run(2, "29632", options)) - base;
    const double expected = estimated(2, options) - estimated(2, tiny);
    INFO(name << ": grown by " << grown / (1 << 20) << " MiB, estimated " << expected / (1 << 20)
              << " MiB");
    CHECK(std::abs(expected / grown - 1) < 0.15);
  }
}

TEST_CASE("estimate prints a table or JSON, and its exit code says whether the run fits") {
  Folder folder;
  const Ended table = Trainer(folder).run_alone(
      {"estimate", "--model", "gpt2-124m", "--ranks", "2", "--memory-gib", "64"});
  INFO(table.output);
  CHECK(table.code == 0);
  CHECK_THAT(table.output, ContainsSubstring("3 recomputed"));
  CHECK_THAT(table.output, ContainsSubstring(": fits"));
  const Ended lacks =
      Trainer(folder).run_alone({"estimate", "--model", "175b", "--ranks", "8", "--micro-batch",
                                 "1", "--sku", "Standard_ND96isr_H200_v5", "--zero", "1"});
  INFO(lacks.output);
  CHECK(lacks.code == 1);
  CHECK_THAT(lacks.output, ContainsSubstring("does not fit"));
  const Ended json = Trainer(folder).run_alone({"estimate", "--output", "json"});
  CHECK(json.code == 0);
  CHECK(json.output.starts_with("{"));
  const Ended wrong = Trainer(folder).run_alone({"estimate", "--model", "gpt9"});
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.output, ContainsSubstring("muster-train: --model: no model is called gpt9"));
}

TEST_CASE("a run says at its end what its rate was of which peak, and where its time went") {
  Folder folder;
  const Ended ended =
      Trainer(folder).run(2, {"--steps", "6", "--recompute", "--out", folder / "out"});
  INFO(ended.output);
  REQUIRE(ended.code == 0);
  CHECK_THAT(ended.output, ContainsSubstring("6 steps in "));
  CHECK_THAT(ended.output, ContainsSubstring(" (A) "));
  CHECK_THAT(ended.output, ContainsSubstring(", HFU "));
  CHECK_THAT(ended.output, ContainsSubstring("measured by an FMA loop"));
  CHECK_THAT(ended.output, ContainsSubstring("time on rank 0: compute "));
}

TEST_CASE("a profile of ranks under mpirun is one file, and elastic runs refuse it") {
  Folder folder;
  const Ended ended = Trainer(folder).run(
      2, {"--steps", "4", "--profile", folder / "trace.json", "--out", folder / "out"});
  INFO(ended.output);
  REQUIRE(ended.code == 0);
  CHECK_THAT(ended.output, ContainsSubstring("profile " + (folder / "trace.json") + ": "));
  const std::string trace = content_of(folder / "trace.json");
  CHECK_THAT(trace, ContainsSubstring("\"name\":\"rank 1 on "));
  CHECK_THAT(trace, ContainsSubstring("ProfilerStep#4"));
  Trainer elastic(folder);
  elastic.with("RANK", "0").with("MUSTER_MEMBERS", folder / "members");
  const Ended refused =
      elastic.run(0, {"--profile", folder / "other.json", "--out", folder / "out"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("--profile: a trace needs the same ranks"));
}
