#include "runtime/train/data_parallel_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/memory/add.h"
#include "runtime/memory/vector_loops.h"
#include "runtime/report/spent_time.h"

namespace muster {
namespace {

MUSTER_VECTOR_CLONES
double sum_of_squares(const float* values, std::size_t count) {
  return lane_sum<double>(count,
                          [=](std::size_t i) { return double{values[i]} * double{values[i]}; });
}

std::string raw_bytes(const std::vector<double>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

std::vector<double> numbers_of(const std::string& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  return numbers;
}

}  // namespace

DataParallelStep::DataParallelStep(const TrainOptions& options, const BatchPlan& plan,
                                   const FlatSpace& space, const Sampler& sampler,
                                   Communicator& ranks)
    : options_(options),
      plan_(plan),
      space_(space),
      ranks_(ranks),
      model_(options.shape, plan.micro_batch, options.model),
      leaves_(owned_leaves(plan.leaves, ranks.rank(), ranks.size())),
      prefetch_(sampler, options.shape.context,
                {plan.batch, leaves_.lo * plan.leaf_sequences(),
                 (leaves_.hi - leaves_.lo) * plan.leaf_sequences(), options.steps}),
      leaf_losses_(leaves_.hi - leaves_.lo) {
  std::size_t nodes = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    owned_.push_back(owned_elements(space, r, ranks.size()));
    subtrees_.push_back(subtrees_of(owned_leaves(plan.leaves, r, ranks.size())));
    nodes += subtrees_.back().size();
  }
  received_.resize(nodes * owned_[ranks.rank()].size());
}

std::size_t DataParallelStep::take_slot() {
  if (free_slots_.empty()) {
    slots_.emplace_back(space_.numel);
    return slots_.size() - 1;
  }
  const std::size_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

double DataParallelStep::sum_leaf(std::span<const Token> tokens, std::span<float> gradient) {
  const std::uint64_t micro_batch = plan_.micro_batch * (options_.shape.context + 1);
  double loss = 0;
  for (bool fresh = true; !tokens.empty(); tokens = tokens.subspan(micro_batch), fresh = false) {
    loss += model_.accumulate(tokens.first(micro_batch), gradient, fresh);
  }
  return loss;
}

void DataParallelStep::sum_own_leaves(const TrainingState& state) {
  model_.use(state.weights);
  free_slots_.insert(free_slots_.end(), node_slots_.begin(), node_slots_.end());
  TreeJoin join([this](std::size_t left, std::size_t right) {
    add_into(slots_[right].data(), space_.numel, slots_[left].data());
    free_slots_.push_back(right);
  });
  const std::span<const Token> tokens = prefetch_.take(state.step);
  const std::uint64_t leaf_tokens = plan_.leaf_sequences() * (options_.shape.context + 1);
  for (std::size_t leaf = leaves_.lo; leaf < leaves_.hi; ++leaf) {
    const std::size_t slot = take_slot();
    const std::size_t own = leaf - leaves_.lo;
    leaf_losses_[own] = sum_leaf(tokens.subspan(own * leaf_tokens, leaf_tokens), slots_[slot]);
    join.push({leaf, 1}, slot);
  }
  node_slots_.clear();
  for (const TreeJoin::Entry& entry : join.entries()) node_slots_.push_back(entry.slot);
}

// One all-to-all per tree node that the rank with most of them holds: with a power of two of ranks,
// one.
std::span<const float> DataParallelStep::exchange() {
  const std::size_t own = owned_[ranks_.rank()].size();
  const std::size_t size = ranks_.size();
  std::size_t rounds = 0;
  for (const auto& nodes : subtrees_) rounds = std::max(rounds, nodes.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    const bool sends = round < node_slots_.size();
    std::vector<ElementRange> in(size);
    std::size_t place = round;
    for (std::size_t r = 0; r < size; place += subtrees_[r].size(), ++r) {
      if (round < subtrees_[r].size()) in[r] = {place * own, (place + 1) * own};
    }
    const auto out =
        sends ? std::span<const float>(slots_[node_slots_[round]]) : std::span<const float>();
    ranks_.all_to_all(out, sends ? owned_ : std::vector<ElementRange>(size), received_, in);
  }
  TreeJoin join([&](std::size_t left, std::size_t right) {
    add_into(&received_[right * own], own, &received_[left * own]);
  });
  std::size_t place = 0;
  for (const auto& nodes : subtrees_) {
    for (const Subtree& node : nodes) join.push(node, place++);
  }
  return std::span<const float>(received_).first(own);
}

// A rank's text: its wish to stop, losses and sums of squares as raw numbers, then its note.
DataParallelStep::RankReport DataParallelStep::gather_reports(const StepWishes& wishes,
                                                              std::span<const float> gradient) {
  std::vector<double> mine{wishes.stop ? 1.0 : 0.0};
  mine.insert(mine.end(), leaf_losses_.begin(), leaf_losses_.end());
  for (std::size_t at = 0; at < gradient.size(); at += space_.align) {
    mine.push_back(sum_of_squares(&gradient[at], space_.align));
  }
  RankReport all;
  const std::vector<std::string> texts = ranks_.gather_texts(raw_bytes(mine) + wishes.note);
  for (std::size_t r = 0; r < texts.size(); ++r) {
    const LeafRange leaves = owned_leaves(plan_.leaves, r, texts.size());
    const std::size_t losses = leaves.hi - leaves.lo;
    const std::size_t bytes = (1 + losses + owned_[r].size() / space_.align) * sizeof(double);
    const std::vector<double> numbers = numbers_of(texts[r].substr(0, bytes));
    const auto blocks = numbers.begin() + static_cast<std::ptrdiff_t>(1 + losses);
    all.stop = all.stop || numbers[0] != 0;
    all.notes.push_back(texts[r].substr(bytes));
    all.leaf_losses.insert(all.leaf_losses.end(), numbers.begin() + 1, blocks);
    all.block_squares.insert(all.block_squares.end(), blocks, numbers.end());
  }
  return all;
}

void DataParallelStep::update(TrainingState& state, std::span<const float> gradient,
                              const StepOutcome& outcome) {
  const double tokens = static_cast<double>(plan_.batch * options_.shape.context);
  double scale = 1 / tokens;
  if (options_.clip > 0) scale *= std::min(1.0, options_.clip / (outcome.gradient_norm + 1e-6));
  for (const FlatParameter& param : space_.params) {
    const std::uint64_t lo = std::max(param.offset, state.owned.lo);
    const std::uint64_t hi = std::min(param.offset + param.size(), state.owned.hi);
    if (lo >= hi) continue;
    const std::uint64_t at = lo - state.owned.lo;
    const std::uint64_t count = hi - lo;
    adamw(options_.adamw,
          {outcome.lr, param.decay ? options_.adamw.decay : 0, scale, state.step + 1},
          gradient.subspan(at, count), std::span(state.weights).subspan(lo, count),
          std::span(state.exp_avg).subspan(at, count),
          std::span(state.exp_avg_sq).subspan(at, count));
  }
}

StepOutcome DataParallelStep::run(TrainingState& state, const StepWishes& wishes) {
  sum_own_leaves(state);
  double exchange_s = 0;
  std::span<const float> gradient;
  RankReport report;
  {
    const SpentTime spent(exchange_s);
    gradient = exchange();
    report = gather_reports(wishes, gradient);
  }
  const double tokens = static_cast<double>(plan_.batch * options_.shape.context);
  double squares = 0;
  for (const double block : report.block_squares) squares += block;
  StepOutcome outcome;
  outcome.data_wait_s = prefetch_.waited_s();
  outcome.loss = tree_sum(report.leaf_losses) / tokens;
  outcome.gradient_norm = std::sqrt(squares) / tokens;
  outcome.lr = options_.learning_rate.at(state.step + 1);
  outcome.skipped = !std::isfinite(outcome.gradient_norm) || !std::isfinite(outcome.loss);
  outcome.stop = report.stop;
  outcome.notes = std::move(report.notes);
  if (wishes.before_update) wishes.before_update();
  if (outcome.skipped) {
    ++state.skipped_in_a_row;
  } else {
    state.skipped_in_a_row = 0;
    update(state, gradient, outcome);
    const SpentTime spent(exchange_s);
    ranks_.all_gather(state.weights, owned_);
    state.loss_ema = state.step == 0 ? outcome.loss : 0.98 * state.loss_ema + 0.02 * outcome.loss;
  }
  ++state.step;
  outcome.exchange_s = exchange_s;
  return outcome;
}

}  // namespace muster
