// Training that goes wrong by itself: when it is seen, how it ends, and what is left of it.

#include "runtime/train/step/guard.h"

#include <cmath>

#include "runtime/checkpoint/choose.h"
#include "runtime/train/step/data_parallel_step.h"
#include "tests/catch.h"
#include "tests/runtime/a_run.h"

using namespace muster;
using namespace muster::test;

namespace {

// What progress becomes by steps with these losses.
TrainingProgress after(std::initializer_list<std::pair<int, double>> levels,
                       TrainingProgress progress = {}) {
  const TrainOptions options;
  const auto alone = make_single_communicator();
  StepGuard guard(options, 0, 0, *alone);
  for (const auto& [steps, loss] : levels) {
    for (int i = 0; i < steps; ++i) {
      StepOutcome outcome;
      outcome.loss = loss;
      outcome.gradient_norm = 1;
      outcome.skipped = !std::isfinite(loss);
      progress.skipped_in_a_row = outcome.skipped ? progress.skipped_in_a_row + 1 : 0;
      ++progress.step;
      guard.step_done(outcome, progress);
    }
  }
  return progress;
}

// A run that was well for 25 steps and then gets a learning rate that spoils it.
ARun a_spoilt_run(const Folder& folder, std::size_t ranks) {
  const ARun well = ARun{folder / "out", ranks}.with([&](TrainOptions& options) {
    options.steps = 25;
    options.checkpoint_dir = folder / "ckpt";
  });
  REQUIRE(well.go() == "0");
  return well.with([](TrainOptions& options) {
    options.resume = "auto";
    options.steps = 200;
    options.checkpoint_every = 2;
    options.keep = 2;
    options.learning_rate = {3, 0, 0};
    options.most_far_above = 40;
  });
}

}  // namespace

TEST_CASE("a loss that stays far above the best of the run is divergence, a spike is not") {
  CHECK_FALSE(find_divergence(after({{60, 3.0}, {99, 610415}}), 100));
  CHECK_FALSE(find_divergence(after({{60, 3.0}, {99, 610415}, {1, 3.0}, {99, 610415}}), 100));
  CHECK_FALSE(find_divergence(after({{60, 3.0}, {500, 4.9}}), 100));
  CHECK_FALSE(find_divergence(after({{60, 3.0}, {500, 610415}}), 0));
  const auto found = find_divergence(after({{60, 3.0}, {100, 610415}}), 100);
  REQUIRE(found);
  CHECK(found->good_step == 59);
  CHECK_THAT(found->what, ContainsSubstring("for 100 steps the loss has been far above the best of "
                                            "the run, 3 after step 1"));
}

TEST_CASE("a run that is wrong from its first steps on is compared with its first loss") {
  CHECK(find_divergence(after({{1, 5.5}, {100, 30}}), 100));
  CHECK_FALSE(find_divergence(after({{1, 5.5}, {200, 6}}), 100));
}

TEST_CASE("the best loss is the lowest median of 20, and outlives the run in its progress") {
  const TrainingProgress progress = after({{20, 4.0}, {30, 3.0}, {1, 0.1}, {5, 3.5}});
  CHECK(progress.best_loss == 3.0);
  CHECK(progress.best_step == 31);
  CHECK(after({{10, 600}}, progress).far_above_in_a_row == 10);
}

TEST_CASE("ten steps in a row without a finite gradient are divergence, at the end one is") {
  const TrainingProgress nine = after({{60, 3.0}, {9, std::nan("")}});
  CHECK_FALSE(find_divergence(nine, 100));
  const auto found = find_divergence(after({{1, std::nan("")}}, nine), 100);
  REQUIRE(found);
  CHECK(found->good_step == 59);
  TrainingState state;
  static_cast<TrainingProgress&>(state) = after({{60, 3.0}, {1, std::nan("")}});
  const auto alone = make_single_communicator();
  CHECK(find_divergence_at_end(state, 100, *alone));
  static_cast<TrainingProgress&>(state) = after({{60, 3.0}, {9, 600}});
  CHECK_FALSE(find_divergence_at_end(state, 100, *alone));
  static_cast<TrainingProgress&>(state) = after({{60, 3.0}, {10, 600}});
  CHECK(find_divergence_at_end(state, 100, *alone));
  CHECK_FALSE(find_divergence_at_end(state, 0, *alone));
}

TEST_CASE("a spoilt run ends as diverged and leaves the last good state, certifying none since") {
  Folder folder;
  const ARun spoilt = a_spoilt_run(folder, 2);
  CHECK(spoilt.go() == std::to_string(exit_diverged));
  const CheckpointSearch search = search_checkpoints(folder / "ckpt");
  REQUIRE(search.newest());
  CHECK(search.newest()->step == 25);
  std::size_t quarantined = 0;
  for (const RejectedCheckpoint& rejected : search.rejected) {
    if (!rejected.quarantine) continue;
    ++quarantined;
    CHECK(rejected.quarantine->reason == "loss");
  }
  CHECK(quarantined >= 2);
  const auto newest_line = content_of(folder / "out/metrics.jsonl");
  CHECK(std::count(newest_line.begin(), newest_line.end(), '\n') < 200);
  // With what the sentence says to change it goes on.
  const ARun mended = spoilt.with([](TrainOptions& options) {
    options.steps = 40;
    options.learning_rate = {1e-3, 0, 0};
  });
  CHECK(mended.go() == "0");
}

TEST_CASE("a level that stays bad is no usual one to certificates") {
  Folder folder;
  const ARun spoilt = a_spoilt_run(folder, 1).with([](TrainOptions& options) {
    options.most_far_above = 0;  // goes on all the same
    options.steps = 260;
    options.checkpoint_every = 20;
  });
  CHECK(spoilt.go() == "0");
  for (const FoundCheckpoint& found : search_checkpoints(folder / "ckpt").usable) {
    if (found.step > 25) CHECK(found.grade < CheckpointGrade::certified);
  }
  const auto usable = search_checkpoints(folder / "ckpt").usable;
  CHECK(std::any_of(usable.begin(), usable.end(), [](const auto& one) { return one.step == 25; }));
}

TEST_CASE("a run that is resumed in the middle of bad steps counts those before") {
  Folder folder;
  ARun run = a_spoilt_run(folder, 1).with([](TrainOptions& options) { options.steps = 55; });
  run.go();
  const auto at_55 = search_checkpoints(folder / "ckpt");
  run = run.with([](TrainOptions& options) { options.steps = 200; });
  CHECK(run.go() == std::to_string(exit_diverged));
  CHECK(search_checkpoints(folder / "ckpt").newest()->step == 25);
}

TEST_CASE("what is later than the last good step is quarantined, a checkpoint of it is not") {
  Folder folder;
  const ARun run = ARun{folder / "out"}.with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / "ckpt";
    options.checkpoint_every = 3;
    options.keep = 10;
  });
  REQUIRE(run.go() == "0");
  const auto usable = [&] {
    std::vector<std::uint64_t> steps;
    for (const auto& one : search_checkpoints(folder / "ckpt").usable) steps.push_back(one.step);
    return steps;
  };
  REQUIRE(usable() == std::vector<std::uint64_t>{12, 9, 6, 3});
  const auto alone = make_single_communicator();
  const auto diverged_after = [&](std::uint64_t good_step) {
    return end_diverged({"the loss rose", good_step}, {folder / "ckpt", 0}, *alone);
  };
  CHECK(diverged_after(9) == exit_diverged);
  CHECK(usable() == std::vector<std::uint64_t>{9, 6, 3});
  diverged_after(5);
  CHECK(usable() == std::vector<std::uint64_t>{3});
  for (const RejectedCheckpoint& rejected : search_checkpoints(folder / "ckpt").rejected) {
    REQUIRE(rejected.quarantine);
    CHECK(rejected.quarantine->reason == "loss");
  }
  diverged_after(2);
  CHECK(usable().empty());
  CHECK(end_diverged({"the loss rose", 2}, {"", 0}, *alone) == exit_diverged);
}
