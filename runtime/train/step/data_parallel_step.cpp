#include "runtime/train/step/data_parallel_step.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <utility>

#include "runtime/checkpoint/flat_space.h"
#include "runtime/memory/bf16.h"
#include "runtime/memory/vector_loops.h"
#include "runtime/report/spent_time.h"
#include "runtime/train/step/guard.h"

namespace muster {
namespace {

MUSTER_VECTOR_CLONES
double sum_of_squares(const float* values, std::size_t count) {
  return lane_sum<double>(count,
                          [=](std::size_t i) { return double{values[i]} * double{values[i]}; });
}

GptSettings model_settings(const TrainOptions& options) {
  GptSettings settings = options.model;
  settings.round_again = options.zero == ZeroStage::weights;
  return settings;
}

constexpr const char* other_sum = "sum";

bool has_same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// What ranks computed alone accuses them. A sum of all that differs does so only where nothing else
// does: the others' shares of it are known to be the same then, if they are known at all.
std::optional<HardwareDoubt> judge_sums(std::uint64_t step, std::vector<std::string> differences,
                                        bool shares_are_known) {
  const bool is_accused = std::any_of(differences.begin(), differences.end(), [](const auto& text) {
    return !text.empty() && text != other_sum;
  });
  const bool differs = std::count(differences.begin(), differences.end(), other_sum) > 0;
  if (!is_accused && differs && !shares_are_known) {
    return HardwareDoubt{{},
                         "step " + std::to_string(step) +
                             " gave another gradient when it was computed again, and it cannot be "
                             "known on which rank"};
  }
  for (std::string& text : differences) {
    if (text == other_sum) text = is_accused ? "" : "gradient";
  }
  return judge_replay(step, differences);
}

}  // namespace

DataParallelStep::DataParallelStep(const TrainOptions& options, const BatchPlan& plan,
                                   const FlatSpace& space, const Sampler& sampler,
                                   Communicator& ranks, Trace* trace)
    : options_(options),
      plan_(plan),
      space_(space),
      ranks_(ranks),
      trace_(trace),
      division_(make_division(space, plan.leaves, ranks.rank(), ranks.size())),
      streams_(options.zero >= ZeroStage::gradients && plan.has_one_pass_per_rank(ranks.size())),
      gradient_plan_(make_gradient_plan(options.shape, options.buckets, space, division_)),
      reduction_(division_, ranks, pieces_under_way, exchange_s_),
      gradients_(make_gradients()),
      weights_(make_weights()),
      blocks_(gradient_plan_.blocks.size(), *weights_, *gradients_, reduction_),
      leaves_(owned_leaves(plan.leaves, ranks.rank(), ranks.size())),
      model_(make_gpt(options.shape, plan.pass_sequences(leaves_), model_settings(options))),
      prefetch_(
          sampler, options.shape.context,
          {plan.batch, plan.sequences(leaves_).lo, plan.sequences(leaves_).size(), options.steps}),
      leaf_losses_(leaves_.hi - leaves_.lo) {
  if (trace != nullptr) traced_blocks_.emplace(blocks_, *trace, gradient_plan_.blocks.size());
}

std::unique_ptr<GradientMemory> DataParallelStep::make_gradients() {
  if (streams_) return std::make_unique<StreamedGradients>(gradient_plan_, division_, reduction_);
  auto whole = std::make_unique<WholeGradients>(gradient_plan_, division_, reduction_);
  whole_gradients_ = whole.get();
  return whole;
}

std::unique_ptr<WeightMemory> DataParallelStep::make_weights() {
  if (options_.zero == ZeroStage::weights) {
    return std::make_unique<ShardedWeights>(gradient_plan_.blocks, options_.buckets, division_,
                                            ranks_, exchange_s_);
  }
  return std::make_unique<WholeWeights>(gradient_plan_.blocks, division_, ranks_,
                                        options_.zero != ZeroStage::nothing, exchange_s_);
}

double DataParallelStep::sum_leaf(std::span<const Token> tokens, bool is_last) {
  const std::uint64_t pass = plan_.pass_sequences(leaves_) * (options_.shape.context + 1);
  BlockStore& store = traced_blocks_ ? static_cast<BlockStore&>(*traced_blocks_) : blocks_;
  double loss = 0;
  for (bool fresh = true; !tokens.empty(); tokens = tokens.subspan(pass), fresh = false) {
    blocks_.begin_pass(is_last && tokens.size() == pass);
    loss += model_->accumulate(tokens.first(pass), store, fresh);
  }
  return loss;
}

std::span<const Token> DataParallelStep::take_samples(std::uint64_t step) {
  const TraceSpan span(trace_, SpanKind::data_wait);
  return prefetch_.take(step);
}

// Of ranks that have fewer leaves than others: before their own, so that the last pass, in which
// gradients leave, is the same one everywhere.
void DataParallelStep::join_idle_passes() {
  std::uint64_t most = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) most = std::max(most, passes_of(r));
  for (std::uint64_t pass = passes_of(ranks_.rank()); pass < most; ++pass) weights_->idle_pass();
}

void DataParallelStep::sum_own_leaves(TrainingState& state) {
  weights_->begin_step(state.weights);
  model_->weights_changed();
  gradients_->begin_step();
  std::span<const Token> tokens = take_samples(state.step);
  join_idle_passes();
  for (std::size_t leaf = leaves_.lo; leaf < leaves_.hi; ++leaf) {
    const bool is_last = leaf + 1 == leaves_.hi;
    const std::size_t count =
        plan_.sequences({leaf, leaf + 1}).size() * (options_.shape.context + 1);
    gradients_->begin_leaf(leaf, is_last);
    leaf_losses_[leaf - leaves_.lo] = sum_leaf(tokens.first(count), is_last);
    tokens = tokens.subspan(count);
  }
  gradients_->finish();
}

// What ranks say of their leaves, added up in order.
StepOutcome DataParallelStep::gather_reports(const StepWishes& wishes, std::uint64_t step) {
  RankReport mine{wishes.stop, wishes.note, leaf_losses_, {}};
  const std::span<const float> gradient = gradients_->reduced();
  for (std::size_t at = 0; at < gradient.size(); at += space_.align) {
    mine.block_squares.push_back(sum_of_squares(&gradient[at], space_.align));
  }
  const SpentTime spent(exchange_s_);
  StepOutcome outcome;
  std::vector<double> losses;
  double squares = 0;
  for (RankReport& one : gather_values(ranks_, mine)) {
    outcome.stop = outcome.stop || one.stop;
    outcome.notes.push_back(std::move(one.note));
    losses.insert(losses.end(), one.leaf_losses.begin(), one.leaf_losses.end());
    for (const double block : one.block_squares) squares += block;
  }
  outcome.data_wait_s = prefetch_.waited_s();
  outcome.loss = tree_sum(losses) / tokens();
  outcome.gradient_norm = std::sqrt(squares) / tokens();
  outcome.lr = options_.learning_rate.at(step + 1);
  outcome.skipped = !std::isfinite(outcome.gradient_norm) || !std::isfinite(outcome.loss);
  return outcome;
}

// Elements `range` of weights and moments, of which `gradient` holds the first one first.
void DataParallelStep::update(TrainingState& state, const ElementRange& range,
                              std::span<const float> gradient, const StepOutcome& outcome) const {
  double scale = 1 / tokens();
  if (options_.clip > 0) scale *= std::min(1.0, options_.clip / (outcome.gradient_norm + 1e-6));
  for (const FlatParameter& param : space_.params) {
    const std::uint64_t lo = std::max(param.offset, range.lo);
    const std::uint64_t hi = std::min(param.offset + param.size(), range.hi);
    if (lo >= hi) continue;
    adamw(options_.adamw,
          {outcome.lr, param.decay ? options_.adamw.decay : 0, scale, state.step + 1},
          gradient.subspan(lo - range.lo, hi - lo), state.part(state.weights, {lo, hi}),
          state.part(state.exp_avg, {lo, hi}), state.part(state.exp_avg_sq, {lo, hi}));
  }
}

// Owners update; what they have updated is under way while they go on.
void DataParallelStep::update_own(TrainingState& state, const StepOutcome& outcome) {
  const std::span<const float> gradient = gradients_->reduced();
  for (const Bucket& bucket : gradient_plan_.buckets) {
    for (const ElementRange& piece : bucket.pieces) {
      const ElementRange own = part_within(piece, state.owned);
      if (own.size() > 0) {
        update(state, {state.owned.lo + own.lo, state.owned.lo + own.hi},
               gradient.subspan(own.lo, own.size()), outcome);
      }
      weights_->updated(piece);
      weights_->progress();
    }
  }
  weights_->finish();
}

// Everything that was reduced goes to all ranks, who update what has come while the next piece
// comes.
void DataParallelStep::update_all(TrainingState& state, const StepOutcome& outcome) {
  const std::span<float> gradient = whole_gradients_->whole();
  std::vector<ElementRange> pieces;
  Transfers transfers;
  for (const Bucket& bucket : gradient_plan_.buckets) {
    for (const ElementRange& piece : bucket.pieces) {
      const SpentTime spent(exchange_s_);
      pieces.push_back(piece);
      transfers.push_back(ranks_.start_all_gather(gradient.subspan(piece.lo, piece.size()),
                                                  parts_within(division_.owned, piece)));
    }
  }
  if (options_.updates_at_once) {
    const SpentTime spent(exchange_s_);
    for (const auto& transfer : transfers) transfer->wait();
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    {
      const SpentTime spent(exchange_s_);
      transfers[i]->wait();
    }
    update(state, pieces[i], gradient.subspan(pieces[i].lo, pieces[i].size()), outcome);
  }
}

StepOutcome DataParallelStep::run(TrainingState& state, const StepWishes& wishes) {
  exchange_s_ = 0;
  if (wishes.flip_gradient) blocks_.flip_next_gradient();
  sum_own_leaves(state);
  StepOutcome outcome = gather_reports(wishes, state.step);
  weights_->finish();
  if (wishes.is_doubtful && wishes.is_doubtful(outcome.loss, outcome.gradient_norm)) {
    outcome.doubt = replay(state);
    const bool can_compare = !state.holds_own_only(state.weights);
    if (!outcome.doubt && can_compare) {
      outcome.doubt = compare_replicas(state.weights, state.step, ranks_);
    }
  }
  if (wishes.before_update) wishes.before_update();
  if (outcome.doubt) return outcome;
  if (outcome.skipped) {
    ++state.skipped_in_a_row;
  } else {
    const TraceSpan span(trace_, SpanKind::optimizer);
    state.skipped_in_a_row = 0;
    if (options_.zero == ZeroStage::nothing) update_all(state, outcome);
    if (options_.zero != ZeroStage::nothing) update_own(state, outcome);
    state.loss_ema = state.step == 0 ? outcome.loss : 0.98 * state.loss_ema + 0.02 * outcome.loss;
  }
  ++state.step;
  outcome.exchange_s = exchange_s_;
  return outcome;
}

StepGuard::StepGuard(const TrainOptions& options, std::uint64_t rank, std::uint64_t attempt,
                     Communicator& ranks)
    : options_(options), rank_(rank), attempt_(attempt), ranks_(ranks) {}

bool StepGuard::is_asked(const std::optional<std::uint64_t>& step,
                         const TrainingState& state) const {
  return step == state.step + 1 && rank_ == options_.fail_rank && attempt_ == 0;
}

std::optional<HardwareDoubt> StepGuard::before_step(TrainingState& state) {
  if (is_asked(options_.fail_at_step, state)) std::raise(SIGKILL);  // as a crash would
  if (!options_.flip_gradient && is_asked(options_.flip_at_step, state)) {
    flip_top_bit(state.weights.front());
  }
  const std::uint64_t every = options_.replica_check_every;
  if (every == 0 || state.step % every != 0) return std::nullopt;
  if (state.holds_own_only(state.weights)) return std::nullopt;
  return compare_replicas(state.weights, state.step, ranks_);
}

void StepGuard::watch(const TrainingState& state, StepWishes& wishes) {
  wishes.is_doubtful = [this, &state](double loss, double gradient_norm) {
    return replays_.is_due(state.step, look(loss, gradient_norm, state));
  };
  wishes.flip_gradient = options_.flip_gradient && is_asked(options_.flip_at_step, state);
}

// Beside the latest steps and beside the best of the run: a level that stays is usual to the first.
LossWindow::Look StepGuard::look(double loss, double gradient_norm,
                                 const TrainingProgress& progress) const {
  const LossWindow::Look look = window_.look(loss, gradient_norm);
  const bool is_usual = look == LossWindow::Look::usual;
  return is_usual && is_far_above(loss, progress.best_loss) ? LossWindow::Look::stands_out : look;
}

LossWindow::Look StepGuard::step_done(const StepOutcome& outcome, TrainingProgress& progress) {
  const LossWindow::Look seen = look(outcome.loss, outcome.gradient_norm, progress);
  window_.add(outcome.loss, outcome.gradient_norm);
  if (outcome.skipped) return seen;
  const double first = progress.best_loss > 0 ? progress.best_loss : outcome.loss;
  const double lowest = window_.recent_loss().value_or(first);
  if (progress.best_loss <= 0 || lowest < progress.best_loss) {
    progress.best_loss = lowest;
    progress.best_step = progress.step;
  }
  const bool is_bad = is_far_above(outcome.loss, progress.best_loss);
  progress.far_above_in_a_row = is_bad ? progress.far_above_in_a_row + 1 : 0;
  return seen;
}

// Collective. Afterwards the buffers hold the second result, which is that of the first when there
// is no doubt.
std::optional<HardwareDoubt> DataParallelStep::replay(TrainingState& state) {
  const std::uint64_t sum = plane_hash(0, 0, gradients_->reduced());
  const std::uint64_t shares = gradients_->hash_of_shares();
  const std::vector<double> losses = leaf_losses_;
  sum_own_leaves(state);
  weights_->finish();
  std::string difference;
  if (!std::equal(losses.begin(), losses.end(), leaf_losses_.begin(), has_same_bits)) {
    difference = "loss";
  } else if (shares != gradients_->hash_of_shares()) {
    difference = "gradient";
  } else if (sum != plane_hash(0, 0, gradients_->reduced())) {
    difference = other_sum;
  }
  return judge_sums(state.step + 1, ranks_.gather_texts(difference), !streams_);
}

}  // namespace muster
