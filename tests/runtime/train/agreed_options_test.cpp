// Which of what all ranks must be given alike they were not.

#include "runtime/train/run.h"

#include "runtime/protocol/start_error.h"
#include "runtime/train/step/options.h"
#include "tests/catch.h"
#include "tests/runtime/thread_communicator.h"

using namespace muster;
using namespace muster::test;

namespace {

// The complaint where one of two ranks was given what `change` does.
std::string complaint(const std::function<void(TrainOptions&)>& change) {
  TrainOptions changed;
  change(changed);
  return options_difference(
      {{"rank 0", agreed_text(TrainOptions())}, {"rank 1", agreed_text(changed)}});
}

}  // namespace

TEST_CASE("every option that decides what ranks compute or exchange is compared by its name") {
  const std::pair<const char*, std::function<void(TrainOptions&)>> changes[] = {
      {"--seed", [](TrainOptions& of) { of.seed = 2; }},
      {"--lr", [](TrainOptions& of) { of.learning_rate.peak = 1; }},
      {"--warmup", [](TrainOptions& of) { of.learning_rate.warmup_steps += 1; }},
      {"--decay-steps", [](TrainOptions& of) { of.learning_rate.decay_steps += 1; }},
      {"--weight-decay", [](TrainOptions& of) { of.adamw.decay = 7; }},
      {"--clip", [](TrainOptions& of) { of.clip = 2; }},
      {"--batch", [](TrainOptions& of) { of.batch = 32; }},
      {"--micro-batch", [](TrainOptions& of) { of.micro_batch = 1; }},
      {"--leaves", [](TrainOptions& of) { of.leaves = 2; }},
      {"--steps", [](TrainOptions& of) { of.steps = 3; }},
      {"--layers", [](TrainOptions& of) { of.shape.layers += 1; }},
      {"--width", [](TrainOptions& of) { of.shape.width += 8; }},
      {"--heads", [](TrainOptions& of) { of.shape.heads += 1; }},
      {"--context", [](TrainOptions& of) { of.shape.context += 1; }},
      {"--vocabulary", [](TrainOptions& of) { of.shape.vocabulary += 1; }},
      {"--untied", [](TrainOptions& of) { of.shape.tied = !of.shape.tied; }},
      {"--precision", [](TrainOptions& of) { of.model.precision = Precision::bf16; }},
      {"--recompute", [](TrainOptions& of) { of.model.recompute = true; }},
      {"--zero", [](TrainOptions& of) { of.zero = ZeroStage::weights; }},
      {"--bucket-bytes", [](TrainOptions& of) { of.buckets.least_bytes += 1; }},
      {"--bucket-limit-bytes", [](TrainOptions& of) { of.buckets.most_bytes += 1; }},
      {"--checkpoint-every", [](TrainOptions& of) { of.checkpoint_every += 1; }},
      {"--checkpoint-mode", [](TrainOptions& of) { of.save_mode = SaveMode::blocking; }},
      {"--keep", [](TrainOptions& of) { of.keep += 1; }},
      {"--replica-check-every", [](TrainOptions& of) { of.replica_check_every += 1; }},
      {"--divergence-steps", [](TrainOptions& of) { of.most_far_above += 1; }},
      {"--verify-data", [](TrainOptions& of) { of.verify_data = false; }},
      {"--jsonl-field", [](TrainOptions& of) { of.jsonl_field = "x\ny"; }},
      {"--profile", [](TrainOptions& of) { of.profile = "file"; }},
      {"--profile-steps",
       [](TrainOptions& of) {
         of.profile_steps = StepRange{2, 3};
       }},
      {"--deterministic", [](TrainOptions& of) { of.deterministic = true; }}};
  for (const auto& [name, change] : changes) {
    INFO(name);
    CHECK(complaint(change).starts_with(std::string(name) + " differs between ranks: "));
    CHECK(complaint(change).ends_with(" on rank 1: give all ranks the same options") !=
          (std::string(name) == "--deterministic"));
  }
}

TEST_CASE("what a rank may have of its own is not compared") {
  CHECK(complaint([](TrainOptions& of) {
          of.out = "elsewhere";
          of.data = {"a", "b"};
          of.data_cache = "/disk";
          of.checkpoint_dir = "/disk/ckpt";
          of.log_every = 3;
          of.peak_tflops = 1;
          of.threads = 7;
          of.peer_timeout_s = 3;
        }).empty());
  TrainOptions one, other;
  one.deterministic = other.deterministic = true;
  other.threads = 2;
  CHECK(options_difference({{"rank 0", agreed_text(one)}, {"rank 1", agreed_text(other)}})
            .starts_with("--threads differs between ranks: 1 on rank 0; 2 on rank 1"));
}

TEST_CASE("of many ranks the values are told with who has them, and some names") {
  std::vector<GivenOptions> all;
  for (int r = 0; r < 12; ++r) {
    all.push_back({"rank " + std::to_string(r), r == 5 ? "seed=2\nlr=1\n" : "seed=1\n"});
  }
  CHECK(options_difference(all) ==
        "--lr differs between ranks: unknown on rank 0, rank 1, rank 2, rank 3, rank 4, rank 6, "
        "rank 7, rank 8 and 3 more; 1 on rank 5 (so does --seed): give all ranks the same options");
  CHECK(options_difference({all[0], all[1]}).empty());
}

TEST_CASE("all ranks hear the same complaint") {
  std::vector<std::string> complaints(3);
  ThreadWorld(3).run([&](Communicator& ranks) {
    TrainOptions options;
    if (ranks.rank() == 2) options.seed = 9;
    try {
      check_sharing_options(options, ranks);
    } catch (const StartError& error) {
      complaints[ranks.rank()] = error.what();
    }
  });
  for (const std::string& one : complaints) {
    CHECK(one ==
          "--seed differs between ranks: 1 on rank 0, rank 1; 9 on rank 2: give all ranks "
          "the same options");
  }
}

TEST_CASE("the least that is sent at a time may be as much as the most, not more") {
  const auto alone = make_single_communicator();
  const auto check = [&](std::uint64_t least, std::uint64_t most) {
    TrainOptions options;
    options.buckets = {least, most};
    check_sharing_options(options, *alone);
  };
  CHECK_NOTHROW(check(1023, 1024));
  CHECK_NOTHROW(check(1024, 1024));
  CHECK_THROWS_WITH(check(1025, 1024),
                    "--bucket-bytes: 1025 is more than the 1024 of --bucket-limit-bytes");
}
