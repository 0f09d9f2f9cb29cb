#include "runtime/train/save/save.h"

#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/retention.h"
#include "runtime/checkpoint/tensor_stats.h"
#include "runtime/communicator/communicator.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/report/spent_time.h"
#include "runtime/train/save/parts.h"
#include "runtime/train/save/shard_transfer.h"

namespace muster {

namespace {

Checked<std::string> write_part(SaveContext& context, const FlatSpace& space,
                                const TrainingState& state, const Communicator& ranks) {
  const PlaneSpans planes{state.own(state.weights), state.own(state.exp_avg),
                          state.own(state.exp_avg_sq)};
  auto shard =
      begin_part(context, space, state.step, {ranks.rank(), ranks.size(), state.owned}, planes);
  if (!shard) return shard.fault();
  return finish_part(shard.value(), {copies_hash(state)});
}

// Everything from the shards to the commit; returns the trouble after the commit.
Checked<std::string> write_and_commit(SaveContext& context, const FlatSpace& space,
                                      const TrainingState& state, Communicator& ranks,
                                      const std::function<void()>& durable) {
  const auto parts = gather_checked(ranks, write_part(context, space, state, ranks));
  if (!parts) return parts.fault();
  const auto manifest = make_manifest(context, space, state, parts.value());
  if (!manifest) return manifest.fault();
  return fetch_and_commit(context, manifest.value(), ranks, durable);
}

}  // namespace

std::string path_of_save(const SaveContext& context, std::uint64_t step) {
  return context.root + "/" + checkpoint_directory_name({step, context.identity.generation});
}

Checked<std::string> fetch_and_commit(const SaveContext& context, const Manifest& manifest,
                                      Communicator& ranks, const std::function<void()>& durable) {
  const auto fetched = fetch_missing_shards(path_of_save(context, manifest.step), manifest, ranks);
  if (!fetched) return fetched.fault();
  Checked<std::string> mine = std::string();
  if (ranks.rank() == 0) mine = commit_and_collect(context, manifest, durable);
  const auto outcome = gather_checked(ranks, mine);
  if (!outcome) return outcome.fault();
  // On other nodes only orphans can lie: the shards that rank 0 has fetched before.
  if (fetched.value() > 0 && ranks.rank() != 0) {
    (void)collect_checkpoints(context.root, {context.keep, manifest.generation, manifest.step});
  }
  return outcome.value().front();
}

SaveOutcome conclude_save(SaveContext& context, std::uint64_t step,
                          const Checked<std::string>& trouble) {
  const std::string name = checkpoint_directory_name({step, context.identity.generation});
  if (!trouble) {
    discard_uncommitted(path_of_save(context, step));
    return {name, trouble.reason(), false, step};
  }
  context.previous = name;
  return {name, trouble.value(), true, step};
}

SaveOutcome save_checkpoint(SaveContext& context, const FlatSpace& space,
                            const TrainingState& state, Communicator& ranks) {
  double durable_s = 0;
  const Stopwatch since_begin;
  const auto trouble =
      write_and_commit(context, space, state, ranks, [&] { durable_s = since_begin.seconds(); });
  SaveOutcome outcome = conclude_save(context, state.step, trouble);
  outcome.copied_s = outcome.durable_s = durable_s;
  return outcome;
}

std::string checkpoint_root(const TrainOptions& options, const RankVariables& variables) {
  return variables.checkpoint_dir.empty() ? options.checkpoint_dir : variables.checkpoint_dir;
}

SaveContext make_save_context(const TrainOptions& options, const RankVariables& variables,
                              const BatchPlan& plan, const SamplerState& data,
                              std::uint64_t windows) {
  SaveContext context;
  context.root = checkpoint_root(options, variables);
  context.identity = make_run_identity(options, variables);
  context.host = host_name();
  context.keep = options.keep;
  context.batch = plan.batch;
  context.tokens_per_step = plan.batch * options.shape.context;
  context.windows = windows;
  context.train.seed = options.seed;
  context.train.micro_batches = plan.micro_batches();
  context.train.micro_batch = plan.micro_batch;
  context.train.leaves = plan.leaves;
  context.train.sampler = data;
  context.train.config = result_options(options);
  return context;
}

}  // namespace muster
