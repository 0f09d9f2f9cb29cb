// Whole runs in this process, ranks as threads: resuming, world sizes, directories that are not
// shared.

#include <filesystem>
#include <numeric>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/heartbeat.h"
#include "runtime/protocol/start_error.h"
#include "runtime/train/restore/restore.h"
#include "runtime/train/run.h"
#include "runtime/train/save/save.h"
#include "runtime/train/step/options.h"
#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/a_run.h"
#include "tests/runtime/file_size_limit.h"
#include "tests/runtime/folder.h"
#include "tests/runtime/thread_communicator.h"

using namespace muster;
using namespace muster::test;

namespace fs = std::filesystem;

namespace {

// The losses of all steps, in nats.
std::vector<double> losses_of(const std::string& metrics) {
  std::vector<double> losses;
  const std::string key = "\"loss\":";
  for (std::size_t at = metrics.find(key); at != std::string::npos;
       at = metrics.find(key, at + 1)) {
    losses.push_back(std::stod(metrics.substr(at + key.size())));
  }
  return losses;
}

}  // namespace

TEST_CASE("training lowers the loss on real text") {
  Folder folder;
  const ARun run = ARun{folder / "out"}.with([](TrainOptions& options) {
    options.steps = 60;
    options.shape = {1, 32, 2, 32};
  });
  REQUIRE(run.go() == "0");
  const std::vector<double> losses = losses_of(content_of(folder / "out/metrics.jsonl"));
  REQUIRE(losses.size() == 60);
  CHECK(losses.front() > 5.3);
  // The text is this folder's, which changes, and one batch differs from the next by 0.5.
  CHECK(std::accumulate(losses.end() - 20, losses.end(), 0.0) / 20 < 3.6);
}

TEST_CASE("a run ends in the same bytes at any number of ranks") {
  Folder folder;
  REQUIRE(ARun{folder / "1", 1}.go() == "0");
  const std::string weights = content_of(folder / "1/model.safetensors");
  REQUIRE(weights.size() > 10000);
  for (const std::size_t ranks : {2, 3, 4, 5, 8}) {
    const ARun run{folder / std::to_string(ranks), ranks};
    REQUIRE(run.go() == "0");
    CHECK(run.weights() == weights);
  }
}

TEST_CASE("without --deterministic a run repeats itself at the same number of ranks") {
  Folder folder;
  const auto free_order = [](TrainOptions& options) { options.deterministic = false; };
  const ARun one = ARun{folder / "a", 3}.with(free_order);
  const ARun two = ARun{folder / "b", 3}.with(free_order);
  REQUIRE(one.go() == "0");
  REQUIRE(two.go() == "0");
  CHECK(one.weights() == two.weights());
}

TEST_CASE(
    "a resumed run ends in the bytes of one that was never interrupted, also at other world "
    "sizes") {
  Folder folder;
  const ARun whole{folder / "whole", 2};
  REQUIRE(whole.go() == "0");
  std::size_t counter = 0;
  for (const std::size_t before : {1, 2, 4}) {
    for (const std::size_t after : {1, 2, 3, 8}) {
      const std::string name = std::to_string(++counter);
      const ARun first = ARun{folder / ("a" + name), before}.with([&](TrainOptions& options) {
        options.steps = 7;
        options.checkpoint_dir = folder / ("ckpt" + name);
      });
      const ARun second = ARun{folder / ("b" + name), after}.with([&](TrainOptions& options) {
        options.checkpoint_dir = folder / ("ckpt" + name);
        options.resume = "auto";
      });
      REQUIRE(first.go() == "0");
      REQUIRE(second.go() == "0");
      CHECK(second.weights() == whole.weights());
    }
  }
}

TEST_CASE("resuming at an early checkpoint makes the same later checkpoints") {
  Folder folder;
  ARun run = ARun{folder / "a", 2}.with(
      [&](TrainOptions& options) { options.checkpoint_dir = folder / "ckpt"; });
  REQUIRE(run.go() == "0");
  const auto hash_of = [&](const std::string& name) {
    return read_manifest(folder / ("ckpt/" + name)).value().state_hash;
  };
  run.variables.resume_from = folder / "ckpt/s000000005-g1";
  run.out = folder / "b";
  REQUIRE(run.go() == "0");
  CHECK(hash_of("s000000010-g2") == hash_of("s000000010-g1"));
  CHECK(hash_of("s000000012-g2") == hash_of("s000000012-g1"));
  CHECK(search_checkpoints(folder / "ckpt").newest()->directory == "s000000012-g2");
  const ResumeLog log = read_resume_log(folder / "ckpt");
  REQUIRE(log.generations.size() == 2);
  CHECK(log.generations[1].fork_step == 5);
  CHECK(log.generations[1].from == "s000000005-g1");
}

TEST_CASE(
    "a damaged newest checkpoint is quarantined and the one before continues to the same end") {
  Folder folder;
  ARun run = ARun{folder / "a", 2}.with(
      [&](TrainOptions& options) { options.checkpoint_dir = folder / "ckpt"; });
  REQUIRE(run.go() == "0");
  const std::string whole = run.weights();
  const std::string shard = folder / "ckpt/s000000012-g1/shard-00001-of-00002.safetensors";
  std::string bytes = content_of(shard);
  bytes[bytes.size() - 100] ^= 1;
  put(shard, bytes);

  ARun asked = run;
  asked.variables.resume_from = folder / "ckpt/s000000012-g1";
  CHECK_THAT(asked.go(), ContainsSubstring("do not match their checksum (quarantined)"));
  CHECK_THAT(asked.go(), ContainsSubstring("is quarantined"));
  run.options.resume = "auto";
  run.out = folder / "b";
  REQUIRE(run.go() == "0");
  CHECK(run.weights() == whole);
}

TEST_CASE("with --resume auto a damaged checkpoint is stepped over in the same start") {
  Folder folder;
  ARun run = ARun{folder / "a", 2}.with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / "ckpt";
    options.resume = "auto";
  });
  REQUIRE(run.go() == "0");
  const std::string whole = run.weights();
  const std::string shard = folder / "ckpt/s000000012-g1/shard-00000-of-00002.safetensors";
  std::string bytes = content_of(shard);
  bytes[5000] ^= 64;
  put(shard, bytes);
  run.out = folder / "b";
  REQUIRE(run.go() == "0");
  CHECK(run.weights() == whole);
  CHECK(read_resume_log(folder / "ckpt").quarantined.contains("s000000012-g1"));
}

TEST_CASE("checkpoints of ranks without a common directory are gathered on rank 0's node") {
  Folder folder;
  ARun run = ARun{folder / "a", 3}.with([](TrainOptions& options) { options.steps = 11; });
  run.own_directory = [&](std::size_t rank) { return folder / ("node" + std::to_string(rank)); };
  REQUIRE(run.go() == "0");
  const CheckpointSearch search = search_checkpoints(folder / "node0");
  REQUIRE(search.usable.size() == 3);
  CHECK(search.rejected.empty());
  CHECK(search_checkpoints(folder / "node1").usable.empty());
  CHECK_FALSE(fs::exists(folder / "node1/s000000005-g1"));  // the orphan was collected later

  ARun second = ARun{folder / "b", 2}.with(
      [&](TrainOptions& options) { options.resume = folder / "node0/s000000011-g1"; });
  REQUIRE(second.go() == "0");
  const ARun whole{folder / "whole", 1};
  REQUIRE(whole.go() == "0");
  CHECK(second.weights() == whole.weights());
}

TEST_CASE("ranks that do not see the checkpoint get its values from rank 0") {
  Folder folder;
  const ACheckpoint saved{.root = folder.path(), .ranks = 2};
  const Manifest manifest = saved.commit();
  const Planes planes = some_planes(manifest.flat, saved.seed);
  ThreadWorld(3).run([&](Communicator& rank) {
    PlaneSource source(rank.rank() == 0 ? saved.path() : "/nonexistent/" + saved.name(), manifest,
                       0, rank);
    const ElementRange range = owned_elements(manifest.flat, rank.rank(), rank.size());
    std::vector<float> values(range.size());
    const bool good = !source.is_direct() && source.fill(1, range, values).ok() &&
                      std::equal(values.begin(), values.end(), planes[1].begin() + range.lo);
    if (!good) std::abort();
  });
  SUCCEED();
}

TEST_CASE("starts that cannot go well are refused in a sentence that names the thing") {
  Folder folder;
  const ARun run = ARun{folder / "a", 2}.with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / "ckpt";
    options.steps = 5;
  });
  REQUIRE(run.go() == "0");
  const auto complaint = [&](const std::function<void(TrainOptions&)>& change) {
    return run
        .with([&](TrainOptions& options) {
          options.resume = "auto";
          change(options);
        })
        .go();
  };
  CHECK_THAT(complaint([](TrainOptions& o) { o.shape.width = 32; }),
             ContainsSubstring("--width is 32, the checkpoint was made with 16"));
  CHECK_THAT(complaint([](TrainOptions& o) { o.seed = 2; }), ContainsSubstring("--seed is 2"));
  CHECK_THAT(complaint([](TrainOptions& o) { o.batch = 16; }), ContainsSubstring("--batch is 16"));
  CHECK_THAT(complaint([](TrainOptions& o) { o.leaves = 4; }),
             ContainsSubstring("8 accumulation chunks"));
  CHECK_THAT(
      complaint([&](TrainOptions& o) { o.data = {std::string(MUSTER_SOURCE_DIR) + "/runtime"}; }),
      ContainsSubstring("the text is not the one"));
  CHECK_THAT(complaint([](TrainOptions& o) { o.data = {"/gone"}; }),
             ContainsSubstring("/gone does not exist"));
  CHECK_THAT(complaint([](TrainOptions& o) { o.shape.heads = 3; }),
             ContainsSubstring("--heads: 3"));
  CHECK_THAT(complaint([](TrainOptions& o) { o.resume = "/gone"; }),
             ContainsSubstring("no such directory"));
  CHECK_THAT(complaint([](TrainOptions& o) { o.shape.context = 10000000; }),
             ContainsSubstring("--context"));
  CHECK_THAT(complaint([&](TrainOptions& o) { o.resume = folder / "a"; }),
             ContainsSubstring("holds no usable checkpoint"));
  CHECK(complaint([](TrainOptions& o) { o.learning_rate.peak = 2e-3; }) == "0");
  ARun alone = run;
  alone.variables.world_size = 4;
  CHECK_THAT(alone.go(), ContainsSubstring("WORLD_SIZE says 4 ranks, but 2 came together"));
}

TEST_CASE("a leftover of an earlier epoch must not write, a new job in the same directory may") {
  Folder folder;
  ARun run = ARun{folder / "a", 1}.with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / "ckpt";
    options.steps = 5;
  });
  run.variables.job = "job-1";
  run.variables.epoch = 4;
  REQUIRE(run.go() == "0");
  CHECK(fs::exists(folder / "ckpt/s000000005-g4"));
  CHECK_THAT(run.go(), ContainsSubstring("it must not write"));
  run.variables.epoch = 3;
  CHECK_THAT(run.go(), ContainsSubstring("epoch 4 of this job has already written here"));
  run.variables.job = "job-2";
  run.variables.epoch = 1;
  REQUIRE(run.go() == "0");
  CHECK(fs::exists(folder / "ckpt/s000000005-g5"));
}

TEST_CASE(
    "a checkpoint that cannot be written is a warning, and training goes on to the same end") {
  Folder folder;
  const ARun whole{folder / "whole", 2};
  REQUIRE(whole.go() == "0");
  ARun run = ARun{folder / "a", 2}.with(
      [&](TrainOptions& options) { options.checkpoint_dir = folder / "ckpt"; });
  // The weights and the log are small enough for this limit, the shards are not.
  const FileSizeLimit limit(60000);
  REQUIRE(run.go() == "0");
  CHECK(run.weights() == whole.weights());
  CHECK_FALSE(find_newest_checkpoint(folder / "ckpt"));
  // What was written of them is gone, or it would keep the disk full; log and tokenizer stay.
  CHECK(std::distance(fs::directory_iterator(folder / "ckpt"), fs::directory_iterator()) == 2);
}

TEST_CASE("weights that cannot be written leave the old ones, and nothing of the new") {
  Folder folder;
  put(folder / "a/model.safetensors", "old");
  {
    const FileSizeLimit limit(10000);
    CHECK(ARun{folder / "a", 2}.go() == "1");
  }
  CHECK(content_of(folder / "a/model.safetensors") == "old");
  CHECK_FALSE(fs::exists(folder / "a/model.safetensors.tmp"));
}

TEST_CASE("heartbeat and metrics files show the last step") {
  Folder folder;
  ARun run{folder / "a", 1};
  run.variables.heartbeat_path = folder / "beat";
  run.variables.metrics_path = folder / "metrics.jsonl";
  REQUIRE(run.go() == "0");
  CHECK(read_heartbeat(folder / "beat") == 12u);
  const std::string metrics = content_of(folder / "metrics.jsonl");
  CHECK(metrics == content_of(folder / "a/metrics.jsonl"));
  CHECK(std::count(metrics.begin(), metrics.end(), '\n') == 12);
  CHECK(metrics.find("{\"step\":12,\"total_steps\":12,\"loss\":") != std::string::npos);
}

TEST_CASE("batches that cannot be cut for the ranks are refused") {
  TrainOptions options;
  options.batch = 12;
  CHECK(make_batch_plan(options, 1).micro_batch == 12);
  CHECK_THROWS_WITH(make_batch_plan(options, 13),
                    ContainsSubstring("--batch: 12 sequences cannot feed 13 ranks"));
  options.deterministic = true;
  options.leaves = 4;
  CHECK_THROWS_WITH(make_batch_plan(options, 5), ContainsSubstring("4 chunks cannot feed 5 ranks"));
  options.leaves = 8;
  CHECK_THROWS_WITH(make_batch_plan(options, 5), ContainsSubstring("use a multiple of 8"));
  options.leaves = 0;
  options.micro_batch = 5;
  CHECK_THROWS_WITH(make_batch_plan(options, 1), ContainsSubstring("no multiple of the 5"));
  options.micro_batch = 4;
  CHECK_THROWS_WITH(make_batch_plan(options, 5),
                    ContainsSubstring("3 micro-batches of 4 sequences cannot feed 5 ranks"));
}

TEST_CASE("any number of ranks gets as equal shares of a step as whole micro-batches allow") {
  TrainOptions options;
  options.batch = 96;
  for (const bool deterministic : {false, true}) {
    for (const std::uint64_t micro_batch : {0, 1, 2, 3, 32}) {
      options.deterministic = deterministic;
      options.micro_batch = micro_batch;
      const std::uint64_t unit = micro_batch == 0 ? (deterministic ? 12 : 1) : micro_batch;
      const std::uint64_t units = options.batch / unit;
      for (std::uint64_t ranks = 1; ranks <= std::min<std::uint64_t>(units, 9); ++ranks) {
        CAPTURE(deterministic, micro_batch, ranks);
        const BatchPlan plan = make_batch_plan(options, ranks);
        CHECK(plan.most_sequences(ranks) == (units + ranks - 1) / ranks * unit);
        std::uint64_t at = 0;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          const LeafRange leaves = owned_leaves(plan.leaves, rank, ranks);
          CHECK(plan.sequences(leaves).lo == at);
          CHECK(plan.sequences(leaves).size() >= units / ranks * unit);
          CHECK(plan.passes(leaves) * plan.pass_sequences(leaves) == plan.sequences(leaves).size());
          at = plan.sequences(leaves).hi;
        }
        CHECK(at == options.batch);
      }
    }
  }
}

TEST_CASE("leaves of --deterministic depend on the batch alone, and feed eight ranks") {
  TrainOptions options;
  options.deterministic = true;
  const auto leaves_of = [&](std::uint64_t batch) {
    options.batch = batch;
    for (const std::size_t ranks : {2, 3, 5}) {
      CHECK(make_batch_plan(options, ranks).leaves == make_batch_plan(options, 1).leaves);
    }
    return make_batch_plan(options, 1).leaves;
  };
  CHECK(leaves_of(16) == 8);
  CHECK(leaves_of(6) == 6);
  CHECK(leaves_of(12) == 12);
  CHECK(leaves_of(15) == 15);
  CHECK(leaves_of(1024) == 8);
}

TEST_CASE("a batch of any size ends in the same bytes at any number of ranks") {
  Folder folder;
  const auto odd = [](TrainOptions& options) {
    options.batch = GENERATE(7, 14);
    options.micro_batch = options.batch / 7;
    options.steps = 4;
  };
  const ARun alone = ARun{folder / "1", 1}.with(odd);
  REQUIRE(alone.go() == "0");
  for (const std::size_t ranks : {2, 3, 5, 7}) {
    ARun run = alone;
    run.ranks = ranks;
    run.out = folder / std::to_string(ranks);
    REQUIRE(run.go() == "0");
    CHECK(run.weights() == alone.weights());
  }
}

TEST_CASE("without --deterministic unequal shares give the loss of one rank") {
  Folder folder;
  const auto uneven = [](TrainOptions& options) {
    options.deterministic = false;
    options.batch = 10;
    options.micro_batch = GENERATE(0, 1, 2);
    options.steps = 6;
  };
  const ARun alone = ARun{folder / "1", 1}.with(uneven);
  REQUIRE(alone.go() == "0");
  for (const std::size_t ranks : {2, 3, 4}) {
    ARun run = alone;
    run.ranks = ranks;
    run.out = folder / std::to_string(ranks);
    REQUIRE(run.go() == "0");
    CHECK(losses_of(content_of(run.out + "/metrics.jsonl")).back() ==
          Approx(losses_of(content_of(alone.out + "/metrics.jsonl")).back()).epsilon(1e-4));
  }
}
