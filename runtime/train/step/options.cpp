#include "runtime/train/step/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "runtime/protocol/environment.h"
#include "runtime/protocol/number_text.h"
#include "runtime/protocol/start_error.h"

namespace muster {
namespace {

// CLI11 itself wraps "-1" around and cuts off what is too large.
std::string whole_number_fault(const std::string& text) {
  if (read_whole_number(text)) return "";
  return "expected a whole number from 0 to 18446744073709551615, got " + text;
}

std::string count_fault(const std::string& text) {
  const bool is_zero = text.find_first_not_of('0') == std::string::npos;
  return is_zero ? "expected a whole number from 1, got " + text : whole_number_fault(text);
}

std::string amount_fault(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && std::isfinite(number) && number >= 0) return "";
  return "expected a number from 0, got " + text;
}

std::string positive_fault(const std::string& text) {
  const bool is_zero = text.find_first_not_of("0.") == std::string::npos;
  return is_zero ? "expected a number above 0, got " + text : amount_fault(text);
}

const CLI::Validator positive(positive_fault, "", "above 0");
const CLI::Validator whole_number(whole_number_fault, "", "whole number");
const CLI::Validator count(count_fault, "", "count");
const CLI::Validator amount(amount_fault, "", "amount");

// A number that must be `fit`, its default in the help.
template <class Number>
void add_number(CLI::App& app, const char* name, Number& number, const CLI::Validator& fit,
                const char* what) {
  app.add_option(name, number, what)->check(fit)->capture_default_str();
}

void add_model_options(CLI::App& app, TrainOptions& options) {
  add_number(app, "--layers", options.shape.layers, whole_number, "transformer layers");
  add_number(app, "--width", options.shape.width, whole_number, "width of the residual stream");
  add_number(app, "--heads", options.shape.heads, whole_number,
             "attention heads; divides the width");
  add_number(app, "--context", options.shape.context, whole_number, "tokens of context");
  add_number(app, "--vocabulary", options.shape.vocabulary, whole_number,
             "tokens that the model knows (0: those of the data)");
  app.add_flag("!--untied", options.shape.tied, "a head of its own instead of the token embedding");
  const std::map<std::string, Precision> precisions{{"fp32", Precision::fp32},
                                                    {"bf16", Precision::bf16}};
  app.add_option("--precision", options.model.precision,
                 "of matrix products: fp32, or bf16 with fp32 weights and sums")
      ->transform(CLI::CheckedTransformer(precisions, CLI::ignore_case))
      ->default_str("fp32");
  app.add_flag("--recompute", options.model.recompute,
               "compute each layer again in its backward, to save memory");
}

// "A-B", or one step; nothing when it is neither.
std::optional<StepRange> parse_steps(const std::string& text) {
  const std::size_t dash = text.find('-');
  const std::string first = text.substr(0, dash);
  const std::string last = dash == std::string::npos ? first : text.substr(dash + 1);
  if (!whole_number_fault(first).empty() || !whole_number_fault(last).empty()) return std::nullopt;
  const StepRange range{std::stoull(first), std::stoull(last)};
  if (range.first == 0 || range.last < range.first) return std::nullopt;
  return range;
}

std::string steps_fault(const std::string& text) {
  return parse_steps(text) ? "" : "expected steps such as 5-20, from 1, got " + text;
}

void add_report_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--out", options.out, "metrics, TensorBoard events, final weights")
      ->capture_default_str();
  add_number(app, "--log-every", options.log_every, count, "steps between two lines of progress");
  app.add_option("--peak-tflops", options.peak_tflops,
                 "of one rank, for its utilisation (default: measured in some 15 ms)")
      ->check(positive);
  app.add_option("--profile", options.profile,
                 "file, or directory, for a Chrome trace of a few steps of all ranks: opens in "
                 "Perfetto");
  app.add_option_function<std::string>(
         "--profile-steps",
         [&options](const std::string& text) { options.profile_steps = parse_steps(text); },
         "A-B: which steps, counted from 1 (default: the first " +
             std::to_string(usual_profile_steps) + " of the run)")
      ->check(CLI::Validator(steps_fault, "", "steps"));
}

void add_data_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--data", options.data,
                 "text files, JSONL files, directories of them; or directories of tokens");
  // A later value of an option replaces an earlier one, so that a job can append to a command.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--jsonl-field", options.jsonl_field, "member of a JSONL line that is the text")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--verify-data",
         [&options](const std::string& depth) { options.verify_data = depth == "all"; },
         "of files of tokens, before the first step: all (read whole, the ranks share the work) or "
         "headers")
      ->check(CLI::IsMember({"all", "headers"}))
      ->default_str("all");
  app.add_option("--data-cache", options.data_cache,
                 "directory on the node's own disk that gets copies of files of tokens");
  add_number(app, "--data-cache-limit", options.data_cache_limit_bytes, whole_number,
             "bytes of all copies in it (0: what the disk holds)");
}

void add_training_options(CLI::App& app, TrainOptions& options) {
  add_number(app, "--steps", options.steps, whole_number,
             "optimizer updates from the first to the last");
  add_number(app, "--batch", options.batch, count, "sequences per step, over all ranks");
  add_number(app, "--micro-batch", options.micro_batch, whole_number,
             "sequences per forward pass, never divided between ranks (0: all of a chunk)");
  add_number(app, "--accumulation-chunks", options.leaves, whole_number,
             "equal parts of a batch whose gradients are added up as a tree (0: one a rank; "
             "with --deterministic 8 or more, or one a --micro-batch)");
  app.add_option("--leaves", options.leaves)->check(whole_number)->group("");  // its old name
  app.add_flag("--deterministic", options.deterministic,
               "same bits at any number of ranks (otherwise: at the same number)");
  add_number(app, "--lr", options.learning_rate.peak, amount, "highest learning rate");
  add_number(app, "--warmup", options.learning_rate.warmup_steps, whole_number,
             "steps of linear warm-up");
  add_number(app, "--decay-steps", options.learning_rate.decay_steps, whole_number,
             "steps of cosine decay after the warm-up, to a tenth (0: constant)");
  add_number(app, "--weight-decay", options.adamw.decay, amount, "weight decay of matrices");
  add_number(app, "--clip", options.clip, amount, "largest gradient norm (0: no clipping)");
  add_number(app, "--seed", options.seed, whole_number, "of the weights and the data order");
  const std::map<std::string, CommunicatorKind> kinds{{"auto", CommunicatorKind::automatic},
                                                      {"mpi", CommunicatorKind::mpi},
                                                      {"muster", CommunicatorKind::muster}};
  app.add_option("--communicator", options.communicator,
                 "between ranks: mpi (started by mpirun), muster (shared memory and TCP, started "
                 "with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT), or auto")
      ->transform(CLI::CheckedTransformer(kinds, CLI::ignore_case))
      ->default_str("auto");
  add_number(app, "--peer-timeout", options.peer_timeout_s,
             CLI::Range(std::uint64_t{0}, std::uint64_t{1000000000}),
             "seconds to wait for the other ranks before giving up (0: for ever)");
  add_number(app, "--threads", options.threads, CLI::Range(1, 1024), "OpenMP threads per rank");
}

void add_sharing_options(CLI::App& app, TrainOptions& options) {
  const std::map<std::string, ZeroStage> stages{{"0", ZeroStage::nothing},
                                                {"1", ZeroStage::moments},
                                                {"2", ZeroStage::gradients},
                                                {"3", ZeroStage::weights}};
  app.add_option("--zero", options.zero,
                 "what ranks hold a share of instead of all: 0 nothing, 1 moments, 2 and "
                 "gradients, 3 and weights; results are the same")
      ->transform(CLI::CheckedTransformer(stages))
      ->default_str("1");
  add_number(app, "--bucket-bytes", options.buckets.least_bytes, whole_number,
             "of gradients or weights, below which neighbours are sent together");
  add_number(app, "--bucket-limit-bytes", options.buckets.most_bytes, count, "of one transfer");
}

void add_checkpoint_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--checkpoint-dir", options.checkpoint_dir,
                 "where checkpoints go (MUSTER_CHECKPOINT_DIR wins; neither: no checkpoints)");
  add_number(app, "--checkpoint-every", options.checkpoint_every, whole_number,
             "steps between checkpoints (0: only at the end)");
  app.get_option("--checkpoint-every")->envname(env_checkpoint_every_steps);
  const std::map<std::string, SaveMode> modes{{"auto", SaveMode::automatic},
                                              {"background", SaveMode::background},
                                              {"blocking", SaveMode::blocking}};
  app.add_option("--checkpoint-mode", options.save_mode,
                 "background: training continues while a checkpoint is written; blocking; "
                 "auto: background from 16 MiB a rank")
      ->transform(CLI::CheckedTransformer(modes, CLI::ignore_case))
      ->default_str("auto");
  const std::map<std::string, std::optional<WriteWay>> ways{{"auto", std::nullopt},
                                                            {"buffered", WriteWay::buffered},
                                                            {"threads", WriteWay::direct_threads},
                                                            {"io_uring", WriteWay::direct_ring}};
  app.add_option_function<std::string>(
         "--checkpoint-writes",
         [&options, ways](const std::string& way) { options.write_way = ways.at(way); },
         "buffered: through the page cache; threads, io_uring: past it; auto: the first large "
         "checkpoint measures")
      ->check(CLI::IsMember({"auto", "buffered", "threads", "io_uring"}))
      ->default_str("auto");
  add_number(app, "--keep", options.keep, CLI::Range(std::uint64_t{2}, std::uint64_t{1000000}),
             "checkpoints that stay");
  app.add_option("--resume", options.resume,
                 "auto (newest in the checkpoint directory), certified (newest that proved "
                 "itself), none, or a path; "
                 "MUSTER_RESUME_FROM wins when it is set");
}

void add_guard_options(CLI::App& app, TrainOptions& options) {
  add_number(app, "--replica-check-every", options.replica_check_every, whole_number,
             "steps between two comparisons of the ranks' weights (0: never)");
  add_number(app, "--divergence-steps", options.most_far_above, whole_number,
             "steps in a row with a loss far above the best after which the run ends as "
             "diverged (0: never)");
}

void add_trial_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--fail-at-step", options.fail_at_step,
                 "SIGKILL a rank before this step, in attempt 0 only")
      ->check(whole_number);
  add_number(app, "--fail-rank", options.fail_rank, whole_number,
             "the rank that dies, or holds the flipped bit");
  app.add_option("--flip-at-step", options.flip_at_step,
                 "flip a bit on that rank before this step, in attempt 0 only")
      ->check(whole_number);
  const std::map<std::string, bool> places{{"weight", false}, {"gradient", true}};
  app.add_option("--flip-in", options.flip_gradient, "weight or gradient")
      ->transform(CLI::CheckedTransformer(places))
      ->default_str("weight");
  add_number(app, "--step-delay-ms", options.step_delay_ms, whole_number, "wait after every step");
}

std::string decimal(double value) {
  return printed("%.17g", value);
}

// Enough for eight ranks, and few enough that a leaf of a small batch still fills a matrix product.
constexpr std::uint64_t usual_leaves = 8;

// Products with the largest context and width then fit 64 bits.
constexpr std::uint64_t batch_limit = 1 << 20;

// In per cent of the ranks' time.
constexpr std::uint64_t share_worth_a_remark = 85;

std::uint64_t chosen_leaves(const TrainOptions& options, std::size_t ranks) {
  if (options.leaves != 0) return options.leaves;
  if (!options.deterministic) return ranks;
  if (options.micro_batch != 0) return options.batch / options.micro_batch;
  std::uint64_t leaves = std::min(usual_leaves, options.batch);
  while (options.batch % leaves != 0) ++leaves;
  return leaves;
}

std::string counted(std::uint64_t number, const char* what) {
  return std::to_string(number) + " " + what;
}

void check_feeds(const BatchPlan& plan, std::size_t ranks, bool leaves_are_given) {
  const std::uint64_t most = std::max<std::uint64_t>(plan.leaves, ranks);
  const std::string whom =
      plan.leaves > ranks ? counted(plan.leaves, "chunks") : counted(ranks, "ranks");
  if (leaves_are_given && plan.leaves < ranks) {
    throw StartError("--accumulation-chunks: " + counted(plan.leaves, "chunks") + " cannot feed " +
                     whom + ": use a larger --accumulation-chunks or fewer ranks");
  }
  if (plan.batch < most) {
    throw StartError("--batch: " + counted(plan.batch, "sequences") + " cannot feed " + whom +
                     ": use a larger --batch or fewer ranks");
  }
  if (plan.micro_batches() < most) {
    throw StartError("--micro-batch: " + counted(plan.micro_batches(), "micro-batches of ") +
                     counted(plan.micro_batch, "sequences") + " cannot feed " + whom +
                     ": use a smaller --micro-batch, or a larger --batch");
  }
}

}  // namespace

void add_run_options(CLI::App& app, TrainOptions& options) {
  options.shape.vocabulary = 0;
  add_data_options(app, options);
  add_report_options(app, options);
  add_model_options(app, options);
  add_training_options(app, options);
  add_sharing_options(app, options);
  add_checkpoint_options(app, options);
  add_guard_options(app, options);
  add_trial_options(app, options);
}

std::variant<TrainOptions, int> parse_train_options(int argc, const char* const* argv) {
  TrainOptions options;
  CLI::App app(
      "Trains a GPT on text files, data-parallel over the ranks that muster or mpirun starts.",
      "muster-train");
  app.footer(
      "Text is made into tokens once, for many runs, by: muster-train tokenize --help\n"
      "What a run would take is said before it by: muster-train estimate --help\n"
      "What the ranks' all-reduce takes is measured by: muster-train probe-allreduce\n"
      "In a job of muster with nodes.min and nodes.max (MUSTER_MEMBERS is set) ranks come and go\n"
      "without a restart.");
  add_run_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_cannot_start;
  }
  return options;
}

std::variant<TrainOptions, std::string> read_train_options(std::vector<std::string> words) {
  TrainOptions options;
  CLI::App app;
  add_run_options(app, options);
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return std::string(error.what());
  }
  return options;
}

TrainOptions elastic_options(const TrainOptions& options) {
  TrainOptions elastic = options;
  elastic.deterministic = true;
  elastic.zero = ZeroStage::nothing;
  elastic.updates_at_once = true;
  // A save that training waits for would hold up a change as well.
  if (elastic.save_mode == SaveMode::automatic) elastic.save_mode = SaveMode::background;
  return elastic;
}

std::map<std::string, std::string> result_options(const TrainOptions& options) {
  return {{"layers", std::to_string(options.shape.layers)},
          {"width", std::to_string(options.shape.width)},
          {"heads", std::to_string(options.shape.heads)},
          {"context", std::to_string(options.shape.context)},
          {"vocabulary", std::to_string(options.shape.vocabulary)},
          {"tied", options.shape.tied ? "1" : "0"},
          {"precision", options.model.precision == Precision::bf16 ? "bf16" : "fp32"},
          {"batch", std::to_string(options.batch)},
          {"seed", std::to_string(options.seed)},
          {"threads", std::to_string(options.threads)},
          {"lr", decimal(options.learning_rate.peak)},
          {"warmup", std::to_string(options.learning_rate.warmup_steps)},
          {"decay-steps", std::to_string(options.learning_rate.decay_steps)},
          {"weight-decay", decimal(options.adamw.decay)},
          {"clip", decimal(options.clip)}};
}

SequenceRange BatchPlan::sequences(const LeafRange& of) const {
  const std::uint64_t unit = whole_leaves ? 1 : micro_batch;
  const std::uint64_t units = batch / unit;
  return {of.lo * units / leaves * unit, of.hi * units / leaves * unit};
}

std::uint64_t BatchPlan::most_sequences(std::size_t ranks) const {
  std::uint64_t most = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    most = std::max(most, sequences(owned_leaves(leaves, rank, ranks)).size());
  }
  return most;
}

BatchPlan make_batch_plan(const TrainOptions& options, std::size_t ranks) {
  if (options.batch == 0 || options.batch > batch_limit) {
    throw StartError("--batch: expected 1 to " + std::to_string(batch_limit) + ", got " +
                     std::to_string(options.batch));
  }
  BatchPlan plan;
  plan.batch = options.batch;
  plan.leaves = std::max<std::uint64_t>(1, chosen_leaves(options, ranks));
  plan.micro_batch = options.micro_batch;
  if (plan.micro_batch != 0 && plan.batch % plan.micro_batch != 0) {
    throw StartError("--batch: " + counted(plan.batch, "sequences") + " are no multiple of the " +
                     std::to_string(plan.micro_batch) + " of --micro-batch");
  }
  if (plan.micro_batch == 0) {
    plan.whole_leaves = options.leaves == 0 && !options.deterministic;
    const std::string leaves = std::to_string(plan.leaves);
    if (!plan.whole_leaves && plan.batch % plan.leaves != 0) {
      throw StartError("--batch: " + counted(plan.batch, "sequences") + " cannot be cut into " +
                       leaves + " equal chunks: use a multiple of " + leaves +
                       ", or set --micro-batch");
    }
    plan.micro_batch = (plan.batch + plan.leaves - 1) / plan.leaves;
  }
  check_feeds(plan, ranks, options.leaves != 0);
  return plan;
}

std::vector<std::string> sharing_remarks(const TrainOptions& options, std::size_t ranks) {
  const BatchPlan plan = make_batch_plan(options, ranks);
  std::vector<std::string> remarks;
  if (options.zero >= ZeroStage::gradients && ranks > 1 && !plan.has_one_pass_per_rank(ranks)) {
    remarks.push_back("--zero: every rank holds whole gradients, as the " +
                      counted(plan.micro_batches(), "micro-batches of a step are more than one ") +
                      "for each of " + counted(ranks, "ranks"));
  }
  const std::uint64_t most = plan.most_sequences(ranks);
  const std::uint64_t used = 100 * plan.batch / (most * ranks);
  if (used < share_worth_a_remark) {
    remarks.push_back("--batch: the slowest of " + counted(ranks, "ranks") + " computes " +
                      std::to_string(most) + " of " + counted(plan.batch, "sequences") +
                      " of a step, which uses " + std::to_string(used) +
                      " % of the ranks' time: use " +
                      (plan.micro_batch > 1 ? "a smaller --micro-batch, " : "") +
                      "a larger --batch or another number of ranks");
  }
  return remarks;
}

}  // namespace muster
