#include "runtime/train/save.h"

#include <charconv>
#include <chrono>

#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/retention.h"
#include "runtime/checkpoint/shard.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/train/rank_vote.h"
#include "runtime/train/shard_transfer.h"

namespace muster {
namespace {

// This rank's part, as text for rank 0: hash of its copy of all weights, a blank, its manifest
// entry.
Checked<std::string> write_own_shard(const SaveContext& context, const FlatSpace& space,
                                     const TrainingState& state, const Communicator& ranks) {
  const std::uint64_t generation = context.identity.generation;
  auto path = prepare_checkpoint_directory(context.root, state.step, generation);
  if (!path) return path.fault();
  const PlaneSpans planes{std::span(state.weights).subspan(state.owned.lo, state.owned.size()),
                          state.exp_avg, state.exp_avg_sq};
  const auto record = write_shard(
      path.value(), {context.identity.run_id, state.step, generation, layout_hash(space)},
      {context.host, ranks.rank(), ranks.size()}, state.owned, planes);
  if (!record) return record.fault();
  return std::to_string(plane_hash(0, 0, state.weights)) + " " +
         format_shard_record(record.value());
}

Manifest describe(const SaveContext& context, const FlatSpace& space, const TrainingState& state,
                  const std::vector<std::string>& parts) {
  Manifest manifest;
  manifest.run_id = context.identity.run_id;
  manifest.generation = context.identity.generation;
  manifest.step = state.step;
  manifest.tokens = state.step * context.tokens_per_step;
  manifest.created_ns = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  manifest.code_hash = context.identity.code_hash;
  manifest.config_hash = context.identity.config_hash;
  manifest.flat = space;
  manifest.world = parts.size();
  manifest.nodes = context.nodes;
  manifest.previous = context.previous;
  manifest.lineage = context.lineage;
  manifest.train = context.train;
  const std::uint64_t batch = context.train.micro_batches * context.train.micro_batch;
  manifest.train.sampler.cursor = state.step * batch;
  manifest.train.sampler.epoch = manifest.train.sampler.cursor / context.windows;
  manifest.train.lr_step = state.step;
  manifest.train.loss_ema = state.loss_ema;
  manifest.train.skipped_in_a_row = state.skipped_in_a_row;
  return manifest;
}

// Adds the ranks' entries: shards, the sum of their hashes, the vote about the replicated weights.
// A state that holds NaN or infinity cannot be trained further, and must not push out one that can.
Checked<NoValue> add_parts(const std::vector<std::string>& parts, Manifest& manifest) {
  manifest.replica.voters = parts.size();
  for (std::size_t r = 0; r < parts.size(); ++r) {
    std::uint64_t hash = 0;
    const auto blank =
        std::from_chars(parts[r].data(), parts[r].data() + parts[r].size(), hash).ptr;
    auto record = parse_shard_record({blank, parts[r].data() + parts[r].size()});
    if (!record) return record.fault();
    if (r == 0) manifest.replica.hash = hash;
    manifest.replica.agree = manifest.replica.agree && manifest.replica.hash == hash;
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

// Rank 0's last part. Trouble after the commit is told, but the checkpoint counts.
Checked<std::string> commit_and_collect(const SaveContext& context, const Manifest& manifest) {
  const auto committed = commit_checkpoint(context.root, manifest);
  if (!committed) return committed;
  if (!committed.value().empty()) return "the hint is old: " + committed.value();
  const auto gone =
      collect_checkpoints(context.root, {context.keep, manifest.generation, manifest.step});
  if (!gone) return "old checkpoints stay: " + gone.reason();
  if (!manifest.replica.agree) return std::string("the weights of the ranks differ");
  return std::string();
}

// Everything from the shards to the commit; returns the trouble after the commit.
Checked<std::string> write_and_commit(const SaveContext& context, const FlatSpace& space,
                                      const TrainingState& state, const std::string& path,
                                      Communicator& ranks) {
  const auto parts = gather_checked(ranks, write_own_shard(context, space, state, ranks));
  if (!parts) return parts.fault();
  Manifest manifest = describe(context, space, state, parts.value());
  if (auto added = add_parts(parts.value(), manifest); !added) return added.fault();

  const auto fetched = fetch_missing_shards(path, manifest, ranks);
  if (!fetched) return fetched.fault();
  Checked<std::string> mine = std::string();
  if (ranks.rank() == 0) mine = commit_and_collect(context, manifest);
  const auto outcome = gather_checked(ranks, mine);
  if (!outcome) return outcome.fault();
  // On other nodes only orphans can lie: the shards that rank 0 has fetched before.
  if (fetched.value() > 0 && ranks.rank() != 0) {
    (void)collect_checkpoints(context.root, {context.keep, manifest.generation, manifest.step});
  }
  return outcome.value().front();
}

}  // namespace

SaveOutcome save_checkpoint(SaveContext& context, const FlatSpace& space,
                            const TrainingState& state, Communicator& ranks) {
  const std::string name = checkpoint_directory_name({state.step, context.identity.generation});
  const std::string path = context.root + "/" + name;
  const auto trouble = write_and_commit(context, space, state, path, ranks);
  if (!trouble) {
    discard_uncommitted(path);
    return {name, trouble.reason(), false};
  }
  context.previous = name;
  return {name, trouble.value(), true};
}

}  // namespace muster
