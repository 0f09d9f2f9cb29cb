// Ranks that compute or remember wrongly are found and named.

#include "runtime/train/step/guard.h"

#include "runtime/checkpoint/choose.h"
#include "runtime/train/step/data_parallel_step.h"
#include "tests/catch.h"
#include "tests/runtime/a_run.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace {

std::vector<std::size_t> odd_of(const std::vector<std::uint64_t>& hashes) {
  const auto doubt = judge_replicas(hashes);
  return doubt ? doubt->ranks : std::vector<std::size_t>();
}

// Whether a weight that flips makes a step stand out depends on the text: it is always the same.
ARun flipping(const std::string& out, std::size_t ranks, bool in_gradient) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::to_string(i * i) + " is the square of another\n";
  put(out + ".txt", text);
  return ARun{out, ranks}.with([&](TrainOptions& options) {
    options.data = {out + ".txt"};
    options.steps = 40;
    options.flip_at_step = 31;
    options.fail_rank = ranks - 1;
    options.flip_gradient = in_gradient;
    options.replica_check_every = 5;
  });
}

}  // namespace

TEST_CASE("of three ranks or more the odd ones are named, of two neither") {
  CHECK_FALSE(judge_replicas(std::vector<std::uint64_t>{7}));
  CHECK_FALSE(judge_replicas(std::vector<std::uint64_t>{7, 7, 7}));
  CHECK(odd_of({7, 7, 8}) == std::vector<std::size_t>{2});
  CHECK(odd_of({9, 7, 8, 7, 7}) == std::vector<std::size_t>{0, 2});
  for (const auto& hashes :
       std::vector<std::vector<std::uint64_t>>{{7, 8}, {7, 7, 8, 8}, {7, 8, 9}}) {
    const auto doubt = judge_replicas(hashes);
    REQUIRE(doubt);
    CHECK(doubt->ranks.empty());
    CHECK_THAT(doubt->what, ContainsSubstring("is unknown which"));
  }
}

TEST_CASE("a rank whose second result is another one is in doubt, equal ones are not") {
  CHECK_FALSE(judge_replay(3, std::vector<std::string>{"", ""}));
  const auto doubt = judge_replay(3, std::vector<std::string>{"", "gradient"});
  REQUIRE(doubt);
  CHECK(doubt->ranks == std::vector<std::size_t>{1});
  CHECK_THAT(doubt->what, ContainsSubstring("step 3 gave another gradient"));
}

TEST_CASE("a step that is not finite is always computed again, spikes once in twenty steps") {
  ReplayRule rule;
  CHECK_FALSE(rule.is_due(1, LossWindow::Look::usual));
  CHECK(rule.is_due(2, LossWindow::Look::stands_out));
  CHECK_FALSE(rule.is_due(3, LossWindow::Look::stands_out));
  CHECK(rule.is_due(4, LossWindow::Look::not_finite));
  CHECK_FALSE(rule.is_due(22, LossWindow::Look::stands_out));
  CHECK(rule.is_due(24, LossWindow::Look::stands_out));
}

TEST_CASE("a bit that flips in a rank's gradient ends the run before it reaches the weights") {
  const std::size_t ranks = GENERATE(1, 2);
  Folder folder;
  const ARun run = flipping(folder / "a", ranks, true).with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / "ckpt";
    options.checkpoint_every = 10;
  });
  REQUIRE(run.go() == "3");
  CHECK(find_newest_checkpoint(folder / "ckpt")->step == 30);
  // The launcher starts it again, and it ends as if nothing had been.
  ARun again = run;
  again.variables.attempt = 1;
  again.options.resume = "auto";
  REQUIRE(again.go() == "0");
  const ARun calm = run.with([&](auto& options) {
    options.flip_at_step.reset();
    options.checkpoint_dir = folder / "calm";
  });
  REQUIRE(calm.go() == "0");
  CHECK(again.weights() == calm.weights());
}

TEST_CASE("a bit that flips in a rank's weights is found when the ranks compare them") {
  const std::size_t ranks = GENERATE(2, 3);
  Folder folder;
  CHECK(flipping(folder / "a", ranks, false).go() == "3");
}

TEST_CASE("a step that stands out because of a rank's weights names that rank") {
  Folder folder;
  const ARun run = flipping(folder / "a", 3, false).with([&](TrainOptions& options) {
    options.replica_check_every = 0;
  });
  CHECK(run.go() == "3");
}

TEST_CASE("a gradient that is not finite both times is the data's or the settings' fault") {
  Folder folder;
  const ARun run = ARun{folder / "a", 2}.with([](TrainOptions& options) {
    options.learning_rate = {1e30, 0, 0};
    options.steps = 40;
  });
  CHECK(run.go() == "4");
}

TEST_CASE("a bit flips in the step that was requested, on that rank, in the first attempt") {
  struct Row {
    std::uint64_t rank, attempt, done;  // steps that are done
    bool flips;
  };
  TrainOptions options;
  options.flip_at_step = 31;
  options.fail_rank = 1;
  options.replica_check_every = 0;
  options.flip_gradient = GENERATE(true, false);
  const auto alone = make_single_communicator();
  for (const Row& row : {Row{1, 0, 30, true}, Row{1, 0, 29, false}, Row{1, 0, 31, false},
                         Row{1, 0, 32, false}, Row{0, 0, 30, false}, Row{1, 1, 30, false}}) {
    CAPTURE(row.rank, row.attempt, row.done, options.flip_gradient);
    TrainingState state;
    state.step = row.done;
    state.weights.assign(4, 1.5f);
    StepGuard guard(options, row.rank, row.attempt, *alone);
    StepWishes wishes;
    CHECK_FALSE(guard.before_step(state));
    guard.watch(state, wishes);
    CHECK(wishes.flip_gradient == (row.flips && options.flip_gradient));
    CHECK((state.weights[0] != 1.5f) == (row.flips && !options.flip_gradient));
    CHECK(state.weights[1] == 1.5f);
  }
}
