#include "runtime/train/save/parts.h"

#include <charconv>
#include <chrono>

#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/grading.h"
#include "runtime/checkpoint/retention.h"
#include "runtime/train/step/lease_watch.h"

namespace muster {
namespace {

std::string all_is_sane(const ReplicaVote& replica) {
  const std::string values = "every value is finite, what was copied is what was written";
  return replica.voters > 1 ? values + ", the ranks hold the same weights" : values;
}

Manifest describe(const SaveContext& context, const FlatSpace& space,
                  const TrainingProgress& progress, std::size_t ranks) {
  Manifest manifest;
  manifest.run_id = context.identity.run_id;
  manifest.generation = context.identity.generation;
  manifest.step = progress.step;
  manifest.tokens = progress.step * context.tokens_per_step;
  manifest.created_ns = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  manifest.code_hash = context.identity.code_hash;
  manifest.config_hash = context.identity.config_hash;
  manifest.flat = space;
  manifest.world = ranks;
  manifest.nodes = context.nodes;
  manifest.previous = context.previous;
  manifest.lineage = context.lineage;
  manifest.train = context.train;
  manifest.train.sampler.cursor = progress.step * context.batch;
  manifest.train.sampler.epoch = manifest.train.sampler.cursor / context.windows;
  manifest.train.lr_step = progress.step;
  manifest.train.loss_ema = progress.loss_ema;
  manifest.train.skipped_in_a_row = progress.skipped_in_a_row;
  manifest.train.best_loss = progress.best_loss;
  manifest.train.best_step = progress.best_step;
  manifest.train.far_above_in_a_row = progress.far_above_in_a_row;
  return manifest;
}

// Adds the ranks' entries: shards, the sum of their hashes, the vote about the replicated weights.
Checked<NoValue> add_parts(const std::vector<std::string>& parts, Manifest& manifest) {
  for (std::size_t r = 0; r < parts.size(); ++r) {
    std::uint64_t hash = 0;
    const auto blank =
        std::from_chars(parts[r].data(), parts[r].data() + parts[r].size(), hash).ptr;
    auto record = parse_shard_record({blank, parts[r].data() + parts[r].size()});
    if (!record) return record.fault();
    if (r == 0) manifest.replica.hash = hash;
    manifest.replica.agree = manifest.replica.agree && manifest.replica.hash == hash;
    if (hash != 0) ++manifest.replica.voters;  // 0: it holds its own elements only
    for (const PlaneVitals& vitals : record.value().vitals) {
      manifest.state_hash += vitals.hash;
      if (vitals.nonfinite == 0) continue;
      return CheckpointFault{"rank " + std::to_string(r) + ": " + std::to_string(vitals.nonfinite) +
                             " values of the state are not finite: training has diverged"};
    }
    manifest.shards.push_back(std::move(record.value()));
  }
  return NoValue{};
}

}  // namespace

Checked<ShardWrite> begin_part(SaveContext& context, const FlatSpace& space, std::uint64_t step,
                               const ShardOwner& owner, const PlaneSpans& planes) {
  const std::uint64_t generation = context.identity.generation;
  auto path = prepare_checkpoint_directory(context.root, step, generation);
  if (!path) return path.fault();
  return ShardWrite::begin(
      path.value(), {context.identity.run_id, step, generation, layout_hash(space)},
      {context.host, owner.rank, owner.ranks}, owner.owned, planes, context.writes);
}

Checked<std::string> finish_part(ShardWrite& shard, const SourceHashes& source) {
  const auto record = shard.finish();
  if (!record) return record.fault();
  for (std::size_t plane = 0; source.owned && plane < flat_planes; ++plane) {
    if (record.value().vitals[plane].hash == (*source.owned)[plane]) continue;
    return CheckpointFault{"the copy of " + std::string(flat_plane_names[plane]) +
                           " is not what the state held: the memory of " + record.value().host +
                           " is in doubt"};
  }
  return std::to_string(source.weights) + " " + format_shard_record(record.value());
}

Checked<Manifest> make_manifest(const SaveContext& context, const FlatSpace& space,
                                const TrainingProgress& progress,
                                const std::vector<std::string>& parts) {
  Manifest manifest = describe(context, space, progress, parts.size());
  if (auto added = add_parts(parts, manifest); !added) return added.fault();
  return manifest;
}

Checked<std::string> commit_and_collect(const SaveContext& context, const Manifest& manifest,
                                        const std::function<void()>& durable) {
  if (lease_is_over()) return CheckpointFault{lease_complaint};
  const auto committed = commit_checkpoint(context.root, manifest);
  if (!committed) return committed;
  durable();
  if (!manifest.replica.agree) return std::string("the weights of the ranks differ");
  const auto sane =
      mark_sane(path_of_save(context, manifest.step),
                {manifest.step, manifest.generation, {all_is_sane(manifest.replica)}});
  Retention retention{context.keep, manifest.generation, manifest.step};
  retention.referred = context.spared;
  const auto gone = collect_checkpoints(context.root, retention);
  if (!committed.value().empty()) return "the hint is old: " + committed.value();
  if (!sane) return "its grade stays COMMITTED: " + sane.reason();
  if (!gone) return "old checkpoints stay: " + gone.reason();
  return std::string();
}

}  // namespace muster
