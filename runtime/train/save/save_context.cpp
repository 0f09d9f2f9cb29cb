#include "runtime/train/save/save_context.h"

namespace muster {

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
