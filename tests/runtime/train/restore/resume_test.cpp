// Where a run continues when directories moved, nodes changed places, or nothing good is left.

#include <filesystem>
#include <thread>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/communicator/communicator.h"
#include "runtime/train/restore/restore.h"
#include "runtime/train/save/save.h"
#include "runtime/train/step/options.h"
#include "scheduler/text/text.h"
#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/a_run.h"

using namespace muster;
using namespace muster::test;

namespace fs = std::filesystem;

namespace {

ARun a_run_in(const Folder& folder, std::size_t ranks, const std::string& checkpoints) {
  return ARun{folder / "out", ranks}.with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / checkpoints;
    options.resume = "auto";
  });
}

void flip_a_bit(const std::string& file) {
  std::string bytes = content_of(file);
  bytes[bytes.size() - 100] ^= 1;
  put(file, bytes);
}

std::string newest(const std::string& root) {
  const auto found = find_newest_checkpoint(root);
  return found ? found->directory : "none";
}

}  // namespace

TEST_CASE("a run that continues in another directory finds its own checkpoints there") {
  Folder folder;
  ARun run = a_run_in(folder, 1, "first");
  run.options.steps = 5;
  REQUIRE(run.go() == "0");
  run.options.steps = 8;
  REQUIRE(run.go() == "0");
  REQUIRE(newest(folder / "first") == "s000000008-g2");
  run.options.steps = 12;
  run.options.resume = folder / "first/s000000008-g2";
  run.options.checkpoint_dir = folder / "second";
  REQUIRE(run.go() == "0");
  CHECK(newest(folder / "second") == "s000000012-g3");
}

TEST_CASE("where every checkpoint is damaged, no run starts from the beginning by itself") {
  Folder folder;
  ARun run = a_run_in(folder, 2, "ckpt");
  run.options.steps = 5;
  REQUIRE(run.go() == "0");
  flip_a_bit(folder / "ckpt/s000000005-g1/shard-00001-of-00002.safetensors");
  run.options.steps = 12;
  CHECK_THAT(run.go(), ContainsSubstring("s000000005-g1: is quarantined; repair it, or name"));
  CHECK_THAT(run.go(), ContainsSubstring("start again with --resume none"));
  run.options.resume = "none";
  REQUIRE(run.go() == "0");
  const std::string again = run.weights();
  const ARun whole{folder / "whole", 1};
  REQUIRE(whole.go() == "0");
  CHECK(again == whole.weights());
}

TEST_CASE("a checkpoint directory that cannot be looked at is no empty one") {
  Folder folder;
  put(folder / "ckpt", "a file");
  CHECK_THAT(a_run_in(folder, 1, "ckpt").go(), ContainsSubstring("cannot be listed"));
  fs::create_directories(folder / "other/resume_log.jsonl");
  CHECK_THAT(a_run_in(folder, 1, "other").go(), ContainsSubstring("resume_log.jsonl"));
  CHECK_FALSE(search_checkpoints(folder / "other").trouble.empty());
}

TEST_CASE("a generation whose log cannot be read does not commit") {
  Folder folder;
  const ACheckpoint saved{.root = folder.path()};
  const Manifest manifest = saved.manifest_with_shards();
  fs::create_directories(folder / "resume_log.jsonl");
  CHECK_FALSE(commit_checkpoint(folder.path(), manifest).ok());
  CHECK(newest(folder.path()) == "none");
}

TEST_CASE("a shard that cannot be read is told apart from one whose content is wrong") {
  Folder folder;
  const ACheckpoint saved{.root = folder.path(), .ranks = 1};
  const Manifest manifest = saved.commit();
  const std::string shard = saved.path() + "/" + manifest.shards[0].file;
  const auto content_is_wrong = [&] {
    std::vector<float> values(manifest.flat.numel);
    const auto read = CheckpointReader(saved.path(), manifest).read(0, 0, values);
    REQUIRE_FALSE(read.ok());
    return read.fault().content_is_wrong;
  };
  const std::string whole = content_of(shard);
  flip_a_bit(shard);
  CHECK(content_is_wrong());
  put(shard, whole.substr(0, 100));
  CHECK(content_is_wrong());
  fs::remove(shard);
  CHECK_FALSE(content_is_wrong());
  fs::create_directory(shard);
  CHECK_FALSE(content_is_wrong());
}

TEST_CASE("after nodes changed places a run continues from the node that has the checkpoint") {
  Folder folder;
  ARun run = ARun{folder / "a", 2}.with([](TrainOptions& options) { options.steps = 7; });
  run.own_directory = [&](std::size_t rank) { return folder / ("node" + std::to_string(rank)); };
  REQUIRE(run.go() == "0");
  run.options.steps = 12;
  run.options.resume = "auto";
  run.own_directory = [&](std::size_t rank) {
    return folder / ("node" + std::to_string(1 - rank));
  };
  REQUIRE(run.go() == "0");
  CHECK(newest(folder / "node1") == "s000000012-g2");
  const ARun whole{folder / "whole", 1};
  REQUIRE(whole.go() == "0");
  CHECK(run.weights() == whole.weights());
}

TEST_CASE("of what the ranks offer, the newest on the lineage that any of them knows is taken") {
  const ResumeOffer old{{{50, 1}, {40, 1}}, {{1, 0}}, "", {}};
  const ResumeOffer current{
      {{45, 2}, {30, 2}}, {{1, 0}, {2, 20}}, "", {{{47, 2}, "torn"}, {{44, 2}, "torn"}}};
  const std::vector<ResumeOffer> offers{{}, old, current};
  const auto chosen = choose_offer(offers);
  REQUIRE(chosen);
  CHECK(chosen->rank == 2);
  CHECK(chosen->name == CheckpointName{45, 2});
  CHECK_FALSE(choose_offer(std::vector<ResumeOffer>(3)));
  CHECK(complaint_of(std::vector<ResumeOffer>(3)).empty());
  const ResumeOffer blind{{}, {}, "/x: cannot be listed: a\tb", {{{1, 1}, "is torn"}}};
  for (const ResumeOffer& offer : {old, current, blind}) {
    CHECK(packed(unpacked<ResumeOffer>(packed(offer)).value()) == packed(offer));
  }
  CHECK(complaint_of(std::vector<ResumeOffer>{{}, blind}) == blind.trouble);
  CHECK(passed_over(offers, chosen->name) ==
        std::vector<std::string>{"s000000047-g2 is newer and is passed over: torn"});
}

TEST_CASE("a newest checkpoint that is passed over is named with the reason") {
  Folder folder;
  ARun run = a_run_in(folder, 2, "ckpt");
  REQUIRE(run.go() == "0");
  const std::string shard = folder / "ckpt/s000000012-g1/shard-00001-of-00002.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  ARun named = run;
  named.variables.resume_from = folder / "ckpt/s000000010-g1";
  run.options.resume = "auto";
  for (const ARun& each : {run, named}) {
    ThreadWorld(2).run([&](Communicator& ranks) {
      const TrainOptions options = each.options;
      const FlatSpace space = gpt_flat_space(options.shape);
      const BatchPlan plan = make_batch_plan(options, 2);
      const auto newest = read_manifest(folder / "ckpt/s000000010-g1").value();
      TrainingState state = make_training_state(space, options.zero, ranks.rank(), 2);
      std::vector<std::string> remarks;
      const auto restored = restore_checkpoint({options, plan, newest.flat, newest.train.sampler},
                                               each.variables, ranks, state, remarks);
      if (!restored || restored->manifest.step != 10) std::abort();
      if (ranks.rank() == 0 && !mentions(joined(remarks),
                                         "s000000012-g1 is newer and is passed over: "
                                         "shard-00001-of-00002.safetensors: has ")) {
        std::abort();
      }
    });
  }
}

TEST_CASE("a run whose checkpoint directory another took over stops") {
  Folder folder;
  ARun run = a_run_in(folder, 2, "ckpt");
  run.options.save_mode = GENERATE(SaveMode::blocking, SaveMode::background);
  run.options.steps = 400;
  run.options.step_delay_ms = 1;
  run.options.checkpoint_every = 5;
  std::thread other([&] {
    while (newest(folder / "ckpt") == "none") std::this_thread::yield();
    log_generation(folder / "ckpt", 7, 5);
  });
  CHECK(run.go() == "93");
  other.join();
  for (const auto& found : search_checkpoints(folder / "ckpt").usable) CHECK(found.step < 400);
}

TEST_CASE("a shard that is damaged on its way gets no name on rank 0's node") {
  Folder folder;
  const ACheckpoint saved{.root = folder / "node1", .ranks = 2};
  const Manifest manifest = saved.manifest_with_shards();
  const std::string target = folder / ("node0/" + saved.name());
  fs::create_directories(target);
  const auto transfer = [&] {
    std::string reason;
    ThreadWorld(2).run([&](Communicator& rank) {
      const auto fetched =
          fetch_missing_shards(rank.rank() == 0 ? target : saved.path(), manifest, rank);
      if (rank.rank() == 1) reason = fetched ? std::to_string(fetched.value()) : fetched.reason();
    });
    return reason;
  };
  const std::string shard = saved.path() + "/" + manifest.shards[1].file;
  flip_a_bit(shard);
  CHECK_THAT(transfer(), ContainsSubstring("arrived damaged from rank 1"));
  CHECK_FALSE(fs::exists(target + "/" + manifest.shards[1].file));
  flip_a_bit(shard);
  CHECK(transfer() == "1");
  CHECK(content_of(target + "/" + manifest.shards[1].file) == content_of(shard));
}

TEST_CASE("a state that is not finite is neither saved nor exported") {
  Folder folder;
  ARun run = a_run_in(folder, 2, "ckpt");
  run.options.steps = 1;
  run.options.learning_rate = {1e38, 0, 0};
  run.options.adamw.decay = 1e10;
  CHECK(run.go() == "4");
  CHECK(newest(folder / "ckpt") == "none");
  CHECK_FALSE(fs::exists(folder / "out/model.safetensors"));
}

TEST_CASE("generation numbers do not run out silently") {
  Folder folder;
  fs::create_directories(folder / "ckpt/s000000001-g18446744073709551615");
  CHECK_THAT(a_run_in(folder, 1, "ckpt").go(), ContainsSubstring("above which there is none"));
}

TEST_CASE("metrics of a resumed run begin on a line of their own") {
  Folder folder;
  put(folder / "out/metrics.jsonl", "{\"step\":1,\"lo");
  REQUIRE(a_run_in(folder, 1, "ckpt").go() == "0");
  CHECK_THAT(content_of(folder / "out/metrics.jsonl"),
             ContainsSubstring("\"lo\n{\"step\":1,\"total_steps\":12"));
}

namespace {

// A checkpoint beside the run that wants to go on from it; both alike until a test changes one.
struct ResumeQuestion {
  TrainOptions options = ARun::tiny();
  BatchPlan plan = make_batch_plan(options, 2);
  FlatSpace space = a_flat_space();
  SamplerState data{"windows-feistel-philox", 0, 0, 1000, 0xdeadbeef};
  Manifest manifest;
  std::vector<std::string> remarks;

  ResumeQuestion() {
    manifest.flat = space;
    manifest.train.config = result_options(options);
    manifest.train.leaves = plan.leaves;
    manifest.train.micro_batch = plan.micro_batch;
    manifest.train.sampler = data;
  }
  std::string conflict() {
    return resume_conflict({options, plan, space, data}, manifest, remarks);
  }
};

}  // namespace

TEST_CASE("an option that makes another run of it is not resumed with, another rate is remarked") {
  CHECK(ResumeQuestion().conflict().empty());
  for (const auto& [option, value] : result_options(ARun::tiny())) {
    ResumeQuestion question;
    question.manifest.train.config[option] = "another";
    const std::string conflict = question.conflict();
    const std::string difference =
        "--" + option + " is " + value + ", the checkpoint was made with another";
    CAPTURE(option);
    const bool goes_on = option == "lr" || option == "warmup" || option == "decay-steps" ||
                         option == "weight-decay" || option == "clip" || option == "threads" ||
                         option == "precision";
    CHECK(conflict == (goes_on ? "" : difference));
    CHECK(joined(question.remarks) ==
          (goes_on ? difference + "; training continues with " + value : ""));
  }
  ResumeQuestion older;
  older.manifest.train.config.erase("clip");
  CHECK(older.conflict().empty());
  CHECK_THAT(joined(older.remarks), ContainsSubstring("the checkpoint was made with unknown"));
}

TEST_CASE("another model, another text, or other leaves where bits count, are not resumed from") {
  ResumeQuestion question;
  SECTION("parameters") {
    question.space.add("more", {1}, true);
    CHECK(question.conflict() == "the model of the checkpoint has other parameters");
  }
  SECTION("the text") {
    SamplerState& then = question.manifest.train.sampler;
    SECTION("kind") {
      then.kind = "lines";
    }
    SECTION("length") {
      then.data_bytes += 1;
    }
    SECTION("content") {
      then.data_crc32c += 1;
    }
    CHECK_THAT(question.conflict(), ContainsSubstring("the text is not the one") &&
                                        ContainsSubstring("(1000 bytes now, "));
  }
  SECTION("how far it had come says nothing of the text") {
    question.manifest.train.sampler.cursor = 77;
    question.manifest.train.sampler.epoch = 3;
    CHECK(question.conflict().empty());
  }
  SECTION("leaves and micro-batches") {
    TrainState& train = question.manifest.train;
    SECTION("more leaves") {
      train.leaves += 1;
    }
    SECTION("larger micro-batches") {
      train.micro_batch += 1;
    }
    const std::string made = "the checkpoint was made with " + std::to_string(train.leaves) +
                             " accumulation chunks and micro-batches of " +
                             std::to_string(train.micro_batch);
    question.options.deterministic = true;
    CHECK_THAT(question.conflict(),
               ContainsSubstring("--deterministic: " + made) &&
                   ContainsSubstring("continue with --accumulation-chunks " +
                                     std::to_string(train.leaves) + " --micro-batch " +
                                     std::to_string(train.micro_batch)));
    CHECK(question.remarks.empty());
    question.options.deterministic = false;
    CHECK(question.conflict().empty());
    CHECK_THAT(joined(question.remarks), ContainsSubstring(made));
  }
}
