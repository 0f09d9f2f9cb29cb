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

void RankBlocks::weights_done(std::size_t block) {
  set_taken(weight, block, false);
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

}  // namespace muster
