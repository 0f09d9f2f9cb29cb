#include "runtime/zero/rank_blocks.h"

#include <stdexcept>
#include <string>

#include "runtime/memory/bf16.h"

namespace muster {

RankBlocks::RankBlocks(std::size_t blocks, WeightMemory& weights, GradientMemory& gradients,
                       GradientReduction& reduction)
    : weights_(weights), gradients_(gradients), reduction_(reduction) {
  for (auto& taken : taken_) taken.resize(blocks);
}

void RankBlocks::set_taken(Kind kind, std::size_t block, bool taken) {
  if (taken_[kind].at(block) == taken) {
    throw std::logic_error("block " + std::to_string(block) + ": its " +
                           (kind == weight ? "weight" : "gradient") + " was " +
                           (taken ? "taken twice" : "released without being acquired") +
                           ": a defect of the model");
  }
  taken_[kind][block] = taken;
}

void RankBlocks::progress() {
  reduction_.progress();
  weights_.progress();
}

std::span<const float> RankBlocks::weights(std::size_t block) {
  set_taken(weight, block, true);
  progress();
  return weights_.take(block);
}

std::span<float> RankBlocks::gradient(std::size_t block) {
  set_taken(sum, block, true);
  return gradients_.block(block);
}

void RankBlocks::gradient_done(std::size_t block) {
  set_taken(sum, block, false);
  if (flips_ && is_last_pass_ && block == 0) {
    flip_top_bit(gradients_.block(block).front());
    flips_ = false;
  }
  gradients_.block_done(block, is_last_pass_);
}

void TracedBlocks::end_phase(SpanKind kind) {
  const std::int64_t now = steady_ns();
  trace_.add({phase_begin_ns_, now, kind, 0, 0});
  phase_begin_ns_ = now;
}

std::span<const float> TracedBlocks::weights(std::size_t block) {
  if (phase_ == Phase::idle && block == 0 && trace_.is_on()) {
    phase_ = Phase::forward;
    phase_begin_ns_ = steady_ns();
  }
  const std::span<const float> values = inner_.weights(block);
  if (phase_ == Phase::forward) block_begin_ns_ = steady_ns();
  return values;
}

void TracedBlocks::weights_done(std::size_t block) {
  if (phase_ == Phase::forward && is_layer(block)) end_block(SpanKind::layer_forward, block - 1);
  if (phase_ == Phase::backward && is_layer(block)) end_block(SpanKind::layer_backward, block - 1);
  if (phase_ == Phase::backward && block == last_) end_block(SpanKind::head_backward, 0);
  inner_.weights_done(block);
}

std::span<float> TracedBlocks::gradient(std::size_t block) {
  if (phase_ == Phase::forward) {
    end_block(SpanKind::head_forward, 0);
    end_phase(SpanKind::forward);
    phase_ = Phase::backward;
  }
  const std::span<float> values = inner_.gradient(block);
  if (phase_ == Phase::backward) block_begin_ns_ = steady_ns();
  return values;
}

void TracedBlocks::gradient_done(std::size_t block) {
  if (phase_ == Phase::backward && block == 0) end_block(SpanKind::embeddings_backward, 0);
  inner_.gradient_done(block);
  if (phase_ != Phase::backward) return;
  block_begin_ns_ = steady_ns();
  if (block != 0) return;
  end_phase(SpanKind::backward);
  phase_ = Phase::idle;
}

}  // namespace muster
