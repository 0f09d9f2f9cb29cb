// What ranks share: the same bytes in every stage, and buckets that are what they should be.

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "runtime/checkpoint/choose.h"
#include "runtime/layer/gemm.h"
#include "runtime/train/step/options.h"
#include "runtime/train/step/training_state.h"
#include "runtime/zero/bucket.h"
#include "runtime/zero/rank_blocks.h"
#include "tests/catch.h"
#include "tests/runtime/a_run.h"
#include "tests/runtime/whole_gpt.h"

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
  CHECK_THROWS_WITH(blocks.weights_done(1), ContainsSubstring("released without being acquired"));
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

namespace {

// Rank 0 of two whose transfers end when somebody waits for them. Nothing is sent.
class SlowRanks final : public Communicator {
 public:
  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return 2; }
  std::unique_ptr<Transfer> start_all_to_all(std::span<const float>, std::span<const ElementRange>,
                                             std::span<float>,
                                             std::span<const ElementRange>) override {
    return std::make_unique<Waiting>(*this);
  }
  std::unique_ptr<Transfer> start_all_gather(std::span<float>,
                                             std::span<const ElementRange>) override {
    return std::make_unique<Waiting>(*this);
  }
  std::vector<std::string> gather_texts(std::string_view) override { return {"", ""}; }
  void broadcast(std::span<char>, std::size_t) override {}
  void abort(int) override {}

  int started = 0;
  int waited = 0;
  int under_way = 0;  // started and not let go

 private:
  struct Waiting final : Transfer {
    explicit Waiting(SlowRanks& among) : ranks(among) { ++ranks.started, ++ranks.under_way; }
    ~Waiting() override { --ranks.under_way; }
    bool done() override { return is_done; }
    void wait() override {
      ranks.waited += is_done ? 0 : 1;
      is_done = true;
    }
    SlowRanks& ranks;
    bool is_done = false;
  };
};

// Two blocks of 1024 elements each, of which either rank owns one.
struct HalfOfTwo {
  FlatSpace space{2048, 1024, {}};
  Division division = make_division(space, 2, 0, 2);
  std::vector<float> values = std::vector<float>(2048, 1.0f);
  SlowRanks ranks;
  double spent_s = 0;
};

}  // namespace

TEST_CASE("gradients are waited for up to the piece that is asked for, and no further") {
  HalfOfTwo half;
  GradientReduction reduction(half.division, half.ranks, 3, half.spent_s);
  std::vector<float> results(2048);
  float* node = half.values.data();
  const auto start = [&](std::uint64_t at) {
    return reduction.start({at, at + 256}, std::vector<float*>{node + at}, results.data() + at);
  };
  CHECK(start(0) == 1);
  CHECK(start(256) == 2);
  CHECK(start(512) == 3);
  reduction.progress();
  CHECK(half.ranks.waited == 0);
  reduction.finish(1);
  CHECK(half.ranks.waited == 1);
  reduction.finish(1);
  CHECK(half.ranks.waited == 1);
  CHECK(start(768) == 4);
  CHECK(half.ranks.waited == 1);
  CHECK(start(1024) == 5);  // one more than may be under way
  CHECK(half.ranks.waited == 2);
  reduction.finish_all();
  CHECK(half.ranks.waited == 5);
  CHECK(half.ranks.under_way == 0);
}

TEST_CASE("weights that were waited for at the end of a step are under way no more") {
  HalfOfTwo half;
  const std::vector<ElementRange> blocks{{0, 1024}, {1024, 2048}};
  for (const bool shares : {true, false}) {
    WholeWeights weights(blocks, half.division, half.ranks, shares, half.spent_s);
    for (int step = 1; step <= 2; ++step) {
      half.ranks.started = half.ranks.waited = 0;
      weights.begin_step(half.values);
      for (const ElementRange& block : blocks) weights.updated(block);
      weights.progress();
      CHECK(half.ranks.waited == 0);
      weights.finish();
      CHECK(half.ranks.started == (shares ? 2 : 0));
      CHECK(half.ranks.waited == half.ranks.started);
      CHECK(half.ranks.under_way == 0);
    }
  }
}

TEST_CASE("a gathered layer is waited for once, and the next one is under way meanwhile") {
  FlatSpace space{6 * 1024, 1024, {}};
  const Division division = make_division(space, 2, 0, 2);
  std::vector<ElementRange> blocks;
  for (std::uint64_t at = 0; at < space.numel; at += 1024) blocks.push_back({at, at + 1024});
  std::vector<float> own(3 * 1024, 1.0f);
  SlowRanks ranks;
  double spent_s = 0;
  ShardedWeights weights(blocks, {0, 1 << 20}, division, ranks, spent_s);
  for (int step = 1; step <= 2; ++step) {
    ranks.started = ranks.waited = 0;
    weights.begin_step(own);
    CHECK(ranks.started == 3);  // both ends and the first layer
    weights.take(0);
    CHECK(ranks.waited == 1);
    weights.take(0);
    CHECK(ranks.waited == 1);
    for (std::size_t block = 1; block <= 4; ++block) {
      weights.take(block);
      CHECK(ranks.started == static_cast<int>(std::min<std::size_t>(3 + block, 6)));
      CHECK(ranks.waited == static_cast<int>(1 + block));
    }
    weights.take(5);
    weights.finish();
    CHECK(ranks.waited == ranks.started);
    CHECK(ranks.under_way == 0);
  }
}

namespace {

// What a pass over the blocks writes into a trace, one word a span.
std::vector<std::string> spans_of_pass(std::size_t blocks, bool is_on) {
  struct Names {
    SpanKind kind;
    const char* name;
  };
  static constexpr Names names[] = {{SpanKind::forward, "forward"},
                                    {SpanKind::layer_forward, "layer_forward"},
                                    {SpanKind::head_forward, "head_forward"},
                                    {SpanKind::backward, "backward"},
                                    {SpanKind::head_backward, "head_backward"},
                                    {SpanKind::layer_backward, "layer_backward"},
                                    {SpanKind::embeddings_backward, "embeddings_backward"}};
  std::vector<ElementRange> ranges;
  for (std::size_t i = 0; i < blocks; ++i) ranges.push_back({i, i + 1});
  std::vector<float> weights(blocks), gradient(blocks);
  WholeBlockStore store(ranges, weights, gradient);
  Trace trace(100);
  trace.turn(is_on);
  TracedBlocks traced(store, trace, blocks);
  for (std::size_t i = 0; i < blocks; ++i) {
    CHECK(traced.weights(i).data() == &weights[i]);
    if (i + 1 < blocks) traced.weights_done(i);
  }
  for (std::size_t i = blocks; i-- > 0;) {
    if (i + 1 < blocks && i > 0) traced.weights(i);
    CHECK(traced.gradient(i).data() == &gradient[i]);
    if (i > 0) traced.weights_done(i);
    traced.gradient_done(i);
  }
  std::vector<std::string> spans;
  for (const TraceEntry& entry : trace.entries()) {
    CHECK(entry.begin_ns > 0);
    CHECK(entry.begin_ns <= entry.end_ns);
    const auto known = std::ranges::find(names, entry.kind, &Names::kind);
    REQUIRE(known != std::end(names));
    spans.push_back(known->name + (entry.number == 0 ? "" : " " + std::to_string(entry.number)));
  }
  return spans;
}

}  // namespace

TEST_CASE("a pass is traced layer by layer, up and down again, where a trace is on") {
  CHECK(spans_of_pass(5, true) ==
        std::vector<std::string>{"layer_forward", "layer_forward 1", "layer_forward 2",
                                 "head_forward", "forward", "head_backward", "layer_backward 2",
                                 "layer_backward 1", "layer_backward", "embeddings_backward",
                                 "backward"});
  CHECK(spans_of_pass(5, false).empty());
}
