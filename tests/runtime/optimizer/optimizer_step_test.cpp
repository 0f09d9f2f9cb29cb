// What a step does to weights and moments, seen in the checkpoint after it: decay, clipping, and
// what is kept of the losses.

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/checkpoint/choose.h"
#include "tests/catch.h"
#include "tests/runtime/a_run.h"

using namespace muster;
using namespace muster::test;

namespace {

struct AStep {
  Manifest manifest;
  std::string path;
  std::vector<nlohmann::json> metrics;

  double l2_of_first_moment() const {
    double squares = 0;
    for (const ShardRecord& shard : manifest.shards) {
      squares += shard.vitals[1].l2 * shard.vitals[1].l2;
    }
    return std::sqrt(squares);
  }

  std::vector<float> weights_of(const std::string& name) const {
    for (const FlatParameter& param : manifest.flat.params) {
      if (param.name != name) continue;
      std::vector<float> values(param.size());
      CheckpointReader reader(path, manifest);
      REQUIRE(reader.read(0, param.offset, values).ok());
      return values;
    }
    throw std::logic_error("no parameter " + name);
  }
};

AStep after_steps(const Folder& folder, const std::string& name, std::uint64_t steps,
                  const std::function<void(TrainOptions&)>& change) {
  const ARun run = ARun{folder / ("out" + name), 2}.with([&](TrainOptions& options) {
    options.steps = steps;
    options.checkpoint_dir = folder / ("ckpt" + name);
    options.learning_rate = {1e-3, 0, 0};
    change(options);
  });
  REQUIRE(run.go() == "0");
  const auto newest = find_newest_checkpoint(folder / ("ckpt" + name));
  REQUIRE(newest);
  AStep step{read_manifest(newest->path).value(), newest->path, {}};
  std::istringstream lines(content_of(run.out + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    step.metrics.push_back(nlohmann::json::parse(line));
  }
  return step;
}

double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float value : values) most = std::max<double>(most, std::fabs(value));
  return most;
}

}  // namespace

// One step of Adam moves a weight by at most the rate; a decay of 500 at that rate halves it.
TEST_CASE("weight decay pulls at matrices and embeddings, not at norms and biases") {
  Folder folder;
  const AStep decayed =
      after_steps(folder, "d", 1, [](TrainOptions& options) { options.adamw.decay = 500; });
  const AStep plain =
      after_steps(folder, "p", 1, [](TrainOptions& options) { options.adamw.decay = 0; });
  for (const FlatParameter& param : plain.manifest.flat.params) {
    CAPTURE(param.name);
    const double before = largest(plain.weights_of(param.name));
    const double after = largest(decayed.weights_of(param.name));
    if (param.shape.size() == 2) CHECK(after < 0.6 * before + 2e-3);
    if (param.shape.size() == 2) CHECK(after > 0.4 * before - 2e-3);
    if (param.shape.size() != 2) CHECK(after == before);
  }
  CHECK(largest(plain.weights_of("ln_f.weight")) > 0.99);
}

TEST_CASE("a gradient above --clip is scaled down to it, one below is left alone") {
  Folder folder;
  const auto clipped_at = [&](const std::string& name, double clip) {
    return after_steps(folder, name, 1, [&](TrainOptions& options) { options.clip = clip; });
  };
  const AStep free = clipped_at("free", 0);
  const double norm = free.metrics.front().at("grad_norm").get<double>();
  REQUIRE(norm > 0.1);
  const double share = 1 - 0.9;  // of a gradient in the first moment after one step
  CHECK(free.l2_of_first_moment() == Approx(share * norm).epsilon(1e-4));
  CHECK(clipped_at("small", 0.01).l2_of_first_moment() == Approx(share * 0.01).epsilon(1e-3));
  CHECK(clipped_at("large", 10 * norm).l2_of_first_moment() == Approx(share * norm).epsilon(1e-4));
}

TEST_CASE("the smoothed loss of a checkpoint is that of all its losses, also after a resume") {
  Folder folder;
  const AStep whole = after_steps(folder, "w", 12, [](TrainOptions&) {});
  double smoothed = whole.metrics.front().at("loss").get<double>();
  for (std::size_t i = 1; i < 12; ++i) {
    smoothed = 0.98 * smoothed + 0.02 * whole.metrics[i].at("loss").get<double>();
  }
  CHECK(whole.manifest.train.loss_ema == Approx(smoothed).epsilon(1e-5));
  after_steps(folder, "r", 7, [](TrainOptions&) {});
  const AStep resumed =
      after_steps(folder, "r", 12, [](TrainOptions& options) { options.resume = "auto"; });
  CHECK(resumed.manifest.train.loss_ema == whole.manifest.train.loss_ema);
  CHECK(resumed.manifest.train.best_loss == whole.manifest.train.best_loss);
  CHECK(resumed.manifest.state_hash == whole.manifest.state_hash);
}

TEST_CASE("values that do not add up to the state hash are not resumed from") {
  Folder folder;
  after_steps(folder, "h", 10, [](TrainOptions&) {});
  const std::string path = folder / "ckpth/s000000010-g1";
  Manifest manifest = read_manifest(path).value();
  manifest.state_hash += 1;
  put(path + "/manifest.json", format_manifest(manifest));
  const AStep resumed =
      after_steps(folder, "h", 12, [](TrainOptions& options) { options.resume = "auto"; });
  CHECK(resumed.manifest.previous == "s000000010-g2");
  for (const RejectedCheckpoint& rejected : search_checkpoints(folder / "ckpth").rejected) {
    REQUIRE(rejected.directory == "s000000010-g1");
    REQUIRE(rejected.quarantine);
    CHECK(rejected.quarantine->reason == "integrity");
  }
}

TEST_CASE("steps that were skipped before a checkpoint count after the resume") {
  Folder folder;
  after_steps(folder, "s", 5, [](TrainOptions&) {});
  const std::string path = folder / "ckpts/s000000005-g1";
  Manifest manifest = read_manifest(path).value();
  manifest.train.skipped_in_a_row = 1;
  put(path + "/manifest.json", format_manifest(manifest));
  const ARun run = ARun{folder / "outs", 2}.with([&](TrainOptions& options) {
    options.steps = 5;
    options.checkpoint_dir = folder / "ckpts";
    options.learning_rate = {1e-3, 0, 0};
    options.resume = "auto";
  });
  CHECK(run.go() == "4");
}

TEST_CASE("matrices and embeddings decay, nothing else does") {
  for (const bool tied : {true, false}) {
    GptShape shape{2, 32, 2, 16, 64};
    shape.tied = tied;
    for (const FlatParameter& param : gpt_flat_space(shape).params) {
      CAPTURE(param.name);
      CHECK(param.decay == (param.shape.size() == 2));
    }
  }
}
