#include "runtime/train/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "runtime/train/start_error.h"

namespace muster {
namespace {

void add_model_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--layers", options.shape.layers, "transformer layers")->capture_default_str();
  app.add_option("--width", options.shape.width, "width of the residual stream")
      ->capture_default_str();
  app.add_option("--heads", options.shape.heads, "attention heads; divides the width")
      ->capture_default_str();
  app.add_option("--context", options.shape.context, "bytes of context")->capture_default_str();
}

void add_training_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--steps", options.steps, "optimizer updates from the first to the last")
      ->capture_default_str();
  app.add_option("--batch", options.batch, "sequences per step, over all ranks")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--micro-batch", options.micro_batch,
                 "sequences per forward pass (0: as many as a leaf holds)")
      ->capture_default_str();
  app.add_option("--leaves", options.leaves,
                 "leaves of the summation tree, a power of two (0: chosen)")
      ->capture_default_str();
  app.add_flag("--deterministic", options.deterministic,
               "same bits at any number of ranks (otherwise: at the same number)");
  app.add_option("--lr", options.learning_rate.peak, "highest learning rate")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--warmup", options.learning_rate.warmup_steps, "steps of linear warm-up")
      ->capture_default_str();
  app.add_option("--decay-steps", options.learning_rate.decay_steps,
                 "steps of cosine decay after the warm-up, to a tenth (0: constant)")
      ->capture_default_str();
  app.add_option("--weight-decay", options.adamw.decay, "weight decay of matrices")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--clip", options.clip, "largest gradient norm (0: no clipping)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the weights and the data order")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "OpenMP threads per rank")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

void add_checkpoint_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--checkpoint-dir", options.checkpoint_dir,
                 "where checkpoints go (MUSTER_CHECKPOINT_DIR wins; neither: no checkpoints)");
  app.add_option("--checkpoint-every", options.checkpoint_every,
                 "steps between checkpoints (0: only at the end)")
      ->capture_default_str();
  app.add_option("--keep", options.keep, "checkpoints that stay")
      ->check(CLI::Range(std::uint64_t{2}, std::uint64_t{1000000}))
      ->capture_default_str();
  app.add_option("--resume", options.resume,
                 "auto (newest in the checkpoint directory), none, or a path; "
                 "MUSTER_RESUME_FROM wins when it is set");
}

void add_trial_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--fail-at-step", options.fail_at_step,
                 "SIGKILL a rank before this step, in attempt 0 only");
  app.add_option("--fail-rank", options.fail_rank, "the rank that dies")->capture_default_str();
  app.add_option("--step-delay-ms", options.step_delay_ms, "wait after every step")
      ->capture_default_str();
}

std::string decimal(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

std::variant<TrainOptions, int> parse_train_options(int argc, const char* const* argv) {
  TrainOptions options;
  CLI::App app("Trains a byte-level GPT on text files, data-parallel over the ranks of mpirun.",
               "muster-train");
  app.add_option("--data", options.data, "text files, or directories to search for them");
  // A later value of an option replaces an earlier one, so that a job can append to a command.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--out", options.out, "metrics, TensorBoard events, final weights")
      ->capture_default_str();
  app.add_option("--log-every", options.log_every, "steps between two lines of progress")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_model_options(app, options);
  add_training_options(app, options);
  add_checkpoint_options(app, options);
  add_trial_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_cannot_start;
  }
  return options;
}

std::map<std::string, std::string> result_options(const TrainOptions& options) {
  return {{"layers", std::to_string(options.shape.layers)},
          {"width", std::to_string(options.shape.width)},
          {"heads", std::to_string(options.shape.heads)},
          {"context", std::to_string(options.shape.context)},
          {"batch", std::to_string(options.batch)},
          {"seed", std::to_string(options.seed)},
          {"lr", decimal(options.learning_rate.peak)},
          {"warmup", std::to_string(options.learning_rate.warmup_steps)},
          {"decay-steps", std::to_string(options.learning_rate.decay_steps)},
          {"weight-decay", decimal(options.adamw.decay)},
          {"clip", decimal(options.clip)}};
}

}  // namespace muster
