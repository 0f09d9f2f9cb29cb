// What ranks share: the same bytes in every stage, and buckets that are what they should be.

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "runtime/checkpoint/choose.h"
#include "runtime/layer/gemm/gemm.h"
#include "runtime/train/batch_plan.h"
#include "runtime/train/training_state.h"
#include "runtime/zero/bucket.h"
#include "runtime/zero/gradient_memory.h"
#include "runtime/zero/rank_blocks.h"
#include "runtime/zero/weight_memory.h"
#include "tests/catch.h"
#include "tests/runtime/a_run.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr ZeroStage stages[] = {ZeroStage::nothing, ZeroStage::moments, ZeroStage::gradients,
                                ZeroStage::weights};

// Three layers, every block a bucket of its own, most of them cut: owners meet inside of blocks.
TrainOptions in_small_buckets() {
  TrainOptions options = ARun::tiny();
  options.shape.layers = 3;
  options.steps = 4;
  options.leaves = 4;
  options.buckets = {1, 16 << 10};
  return options;
}

std::string describe(const TrainOptions& options, std::size_t ranks) {
  return "--zero " + std::to_string(static_cast<int>(options.zero)) + " on " +
         std::to_string(ranks) + " ranks";
}

// Runs the options in every stage at every number of ranks, against one rank.
void check_all_equal(const Folder& folder, TrainOptions options,
                     const std::vector<std::size_t>& world_sizes) {
  const ARun alone{folder / "alone", 1, options};
  REQUIRE(alone.go() == "0");
  const std::string expected = alone.weights();
  REQUIRE(expected.size() > 10000);
  for (const ZeroStage stage : stages) {
    for (const std::size_t ranks : world_sizes) {
      options.zero = stage;
      CAPTURE(describe(options, ranks));
      const ARun run{folder / "run", ranks, options};
      REQUIRE(run.go() == "0");
      CHECK(run.weights() == expected);
    }
  }
}

std::vector<ElementRange> blocks_of_kib(const std::vector<std::uint64_t>& sizes) {
  std::vector<ElementRange> blocks;
  std::uint64_t at = 0;
  for (const std::uint64_t kib : sizes) {
    blocks.push_back({at, at + kib * 1024 / sizeof(float)});
    at = blocks.back().hi;
  }
  return blocks;
}

std::vector<std::size_t> first_blocks(const std::vector<Bucket>& buckets) {
  std::vector<std::size_t> firsts;
  for (const Bucket& bucket : buckets) firsts.push_back(bucket.first_block);
  return firsts;
}

}  // namespace

TEST_CASE("every stage ends in the same bytes at any number of ranks") {
  const Folder folder;
  check_all_equal(folder, in_small_buckets(), {1, 2, 3, 4});
}

TEST_CASE("every stage ends in the same bytes with many leaves a rank, and unevenly many") {
  const Folder folder;
  TrainOptions options = in_small_buckets();
  options.leaves = 8;
  check_all_equal(folder, options, {2, 3, 5});
}

TEST_CASE("every stage ends in the same bytes with several micro-batches a leaf") {
  const Folder folder;
  TrainOptions options = in_small_buckets();
  options.micro_batch = 1;
  check_all_equal(folder, options, {1, 3, 4});
}

TEST_CASE("every stage ends in the same bytes whatever the buckets, the head and recomputation") {
  const Folder folder;
  TrainOptions options = in_small_buckets();
  options.shape.tied = false;
  options.model.recompute = GENERATE(true, false);
  options.buckets.least_bytes = GENERATE(1, 100 << 10, 1 << 30);
  options.buckets.most_bytes = std::max<std::uint64_t>(options.buckets.least_bytes, 8 << 10);
  check_all_equal(folder, options, {2, 4});
}

TEST_CASE("every stage ends in the same bytes with one layer, and in bf16") {
  const Folder folder;
  TrainOptions options = in_small_buckets();
  options.shape.layers = GENERATE(1, 2);
  if (has_bf16_gemm()) options.model.precision = Precision::bf16;
  check_all_equal(folder, options, {2, 4});
}

TEST_CASE("without --deterministic all stages agree at the same number of ranks") {
  const Folder folder;
  TrainOptions options = in_small_buckets();
  options.leaves = 0;
  options.deterministic = false;
  const std::size_t ranks = GENERATE(2, 3);
  const ARun usual{folder / "usual", ranks, options};
  REQUIRE(usual.go() == "0");
  for (const ZeroStage stage : stages) {
    options.zero = stage;
    CAPTURE(describe(options, ranks));
    const ARun run{folder / "run", ranks, options};
    REQUIRE(run.go() == "0");
    CHECK(run.weights() == usual.weights());
  }
}

TEST_CASE("a checkpoint of one stage continues in any other at any number of ranks") {
  const Folder folder;
  TrainOptions options = in_small_buckets();
  const ARun whole{folder / "whole", 1, options};
  REQUIRE(whole.go() == "0");
  std::size_t counter = 0;
  for (const ZeroStage before : stages) {
    for (const ZeroStage after : stages) {
      TrainOptions first = options;
      first.checkpoint_dir = folder / ("ckpt" + std::to_string(++counter));
      first.zero = before;
      first.steps = 2;
      REQUIRE(ARun{folder / "first", 1 + counter % 4, first}.go() == "0");
      TrainOptions second = first;
      second.resume = "auto";
      second.zero = after;
      second.steps = options.steps;
      CAPTURE(describe(first, 1 + counter % 4), describe(second, 1 + counter / 4));
      const ARun resumed{folder / "second", 1 + counter / 4 % 4, second};
      REQUIRE(resumed.go() == "0");
      CHECK(resumed.weights() == whole.weights());
    }
  }
}

TEST_CASE("checkpoints are the same in every stage, written in the background or not") {
  const Folder folder;
  TrainOptions options = in_small_buckets();
  options.checkpoint_every = 2;
  options.save_mode = GENERATE(SaveMode::background, SaveMode::blocking);
  std::vector<std::uint64_t> hashes;
  for (const ZeroStage stage : stages) {
    options.zero = stage;
    options.checkpoint_dir = folder / ("ckpt" + std::to_string(hashes.size()));
    REQUIRE(ARun{folder / "out", 3, options}.go() == "0");
    const auto manifest = read_manifest(options.checkpoint_dir + "/s000000004-g1");
    REQUIRE(manifest);
    CHECK(manifest.value().replica.agree);
    CHECK(manifest.value().replica.voters == (stage == ZeroStage::weights ? 0 : 3));
    hashes.push_back(manifest.value().state_hash);
  }
  CHECK(hashes == std::vector<std::uint64_t>(4, hashes[0]));
}

TEST_CASE("a run that diverges is given up in every stage") {
  const Folder folder;
  for (const ZeroStage stage : stages) {
    TrainOptions options = in_small_buckets();
    options.zero = stage;
    options.steps = 40;
    options.learning_rate = {1e30, 0, 0};
    CAPTURE(describe(options, 3));
    CHECK(ARun{folder / "out", 3, options}.go() == "4");
  }
}

TEST_CASE("ranks that would share in different ways are refused before any of them computes") {
  const Folder folder;
  std::vector<std::string> complaints(2);
  ThreadWorld(2).run([&](Communicator& ranks) {
    TrainOptions options = in_small_buckets();
    options.out = folder / "out";
    if (ranks.rank() == 1) options.zero = ZeroStage::weights;
    try {
      run_training(options, {}, ranks, {});
    } catch (const StartError& error) {
      complaints[ranks.rank()] = error.what();
    }
  });
  CHECK_THAT(complaints[0],
             ContainsSubstring("--zero differs between ranks: 1 on rank 0; 3 on rank 1: give"));
  CHECK(complaints[1] == complaints[0]);
  TrainOptions options = in_small_buckets();
  options.buckets = {2048, 1024};
  CHECK_THAT((ARun{folder / "out", 2, options}.go()),
             ContainsSubstring("--bucket-bytes: 2048 is more than the 1024"));
}

TEST_CASE("gradients that stay whole in spite of --zero 2 are told") {
  TrainOptions options = in_small_buckets();
  options.zero = ZeroStage::gradients;
  CHECK(sharing_remarks(options, 4).empty());
  REQUIRE(sharing_remarks(options, 2).size() == 1);
  CHECK_THAT(sharing_remarks(options, 2).front(),
             ContainsSubstring("4 micro-batches of a step are more than one for each of 2 ranks"));
  options.zero = ZeroStage::moments;
  CHECK(sharing_remarks(options, 2).empty());
}

TEST_CASE("ranks that wait for the slowest are told how much of their time is used") {
  TrainOptions options;
  options.batch = 16;
  options.micro_batch = 2;
  CHECK(sharing_remarks(options, 4).empty());
  REQUIRE(sharing_remarks(options, 7).size() == 1);
  CHECK_THAT(sharing_remarks(options, 7).front(),
             ContainsSubstring("the slowest of 7 ranks computes 4 of 16 sequences of a step, "
                               "which uses 57 % of the ranks' time"));
}

TEST_CASE("every stage ends in the same bytes where ranks have unequal shares") {
  const Folder folder;
  TrainOptions options = in_small_buckets();
  options.batch = 7;
  options.leaves = 0;
  options.micro_batch = 1;
  check_all_equal(folder, options, {2, 3, 7});
}

TEST_CASE("a rank holds of the state what its stage says") {
  const FlatSpace space = gpt_flat_space({2, 32, 2, 16, 64});
  const std::uint64_t own = owned_elements(space, 1, 3).size();
  const auto sizes = [&](ZeroStage stage) {
    const TrainingState state = make_training_state(space, stage, 1, 3);
    return std::vector{state.weights.size(), state.exp_avg.size(), state.exp_avg_sq.size()};
  };
  CHECK(sizes(ZeroStage::nothing) == std::vector{space.numel, space.numel, space.numel});
  CHECK(sizes(ZeroStage::moments) == std::vector{space.numel, own, own});
  CHECK(sizes(ZeroStage::gradients) == std::vector{space.numel, own, own});
  CHECK(sizes(ZeroStage::weights) == std::vector{own, own, own});
}

TEST_CASE("small blocks share a bucket, from the last to the first, and large ones are cut") {
  const auto blocks = blocks_of_kib({40, 8, 8, 8, 8, 4});
  const auto firsts = [&](std::uint64_t least_kib) {
    return first_blocks(make_buckets(blocks, {least_kib << 10, 16 << 10}));
  };
  CHECK(firsts(0) == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});
  CHECK(firsts(12) == std::vector<std::size_t>{0, 2, 4});
  CHECK(firsts(1000) == std::vector<std::size_t>{0});
  CHECK(first_blocks(make_buckets(blocks_of_kib({4, 12, 12}), {10 << 10, 16 << 10})) ==
        std::vector<std::size_t>{0, 2});  // the first is too small alone

  const auto buckets = make_buckets(blocks, {12 << 10, 16 << 10});
  CHECK(buckets[0].blocks == 2);
  CHECK(buckets[0].pieces.size() == 3);  // 48 KiB
  std::uint64_t at = 0;
  for (const Bucket& bucket : buckets) {
    for (const ElementRange& piece : bucket.pieces) {
      CHECK(piece.lo == at);
      CHECK(piece.size() * sizeof(float) <= 16 << 10);
      at = piece.hi;
    }
  }
  CHECK(at == blocks.back().hi);
  CHECK(buckets_of_blocks(buckets, 6) == std::vector<std::size_t>{0, 0, 1, 1, 2, 2});
}

TEST_CASE("a block that is taken twice, or given back without, is a defect that is told") {
  const GradientPlan plan{blocks_of_kib({4, 4}), make_buckets(blocks_of_kib({4, 4}), {}), 2048};
  const FlatSpace space{2048, 1024, {}};
  const auto ranks = make_single_communicator();
  const Division division = make_division(space, 1, 0, 1);
  double spent_s = 0;
  GradientReduction reduction(division, *ranks, 1, spent_s);
  StreamedGradients gradients(plan, division, reduction);
  WholeWeights weights(plan.blocks, division, *ranks, true, spent_s);
  std::vector<float> values(2048);
  weights.begin_step(values);
  RankBlocks blocks(2, weights, gradients, reduction);
  blocks.weights(1);
  CHECK_THROWS_WITH(blocks.weights(1), ContainsSubstring("block 1: its weight was taken twice"));
  blocks.weights_done(1);
  CHECK_THROWS_WITH(blocks.weights_done(1), ContainsSubstring("given back without being taken"));
  blocks.gradient(0);
  CHECK_THROWS_WITH(blocks.gradient(0), ContainsSubstring("block 0: its gradient was taken twice"));
}

TEST_CASE("transfers under way end in any order that they are waited for") {
  std::vector<float> sums(3);
  ThreadWorld(3).run([&](Communicator& ranks) {
    const auto mine = static_cast<float>(ranks.rank() + 1);
    std::vector<float> whole(3), all(3), send(3, mine);
    whole[ranks.rank()] = mine;
    const std::vector<ElementRange> one_each{{0, 1}, {1, 2}, {2, 3}};
    const auto first = ranks.start_all_gather(whole, one_each);
    const auto second = ranks.start_all_to_all(send, one_each, all, one_each);
    while (!second->done()) std::this_thread::yield();
    second->wait();
    first->wait();
    sums[ranks.rank()] = std::accumulate(whole.begin(), whole.end(), 0.0f) +
                         std::accumulate(all.begin(), all.end(), 0.0f);
  });
  CHECK(sums == std::vector<float>(3, 12.0f));
}
