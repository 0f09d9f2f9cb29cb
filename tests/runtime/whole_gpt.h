// A model with all its weights and all gradients in one piece, in memory of the caller.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/model/gpt.h"

namespace muster::test {

class WholeBlockStore final : public BlockStore {
 public:
  WholeBlockStore(std::span<const ElementRange> blocks, std::span<const float> weights,
                  std::span<float> gradient)
      : blocks_(blocks), weights_(weights), gradient_(gradient) {}

  std::span<const float> weights(std::size_t block) override {
    return weights_.subspan(blocks_[block].lo, blocks_[block].size());
  }
  void weights_done(std::size_t) override {}
  std::span<float> gradient(std::size_t block) override {
    return gradient_.subspan(blocks_[block].lo, blocks_[block].size());
  }
  void gradient_done(std::size_t) override {}

 private:
  std::span<const ElementRange> blocks_;
  std::span<const float> weights_;
  std::span<float> gradient_;
};

class WholeGpt {
 public:
  WholeGpt(const GptShape& shape, std::size_t sequences, const GptSettings& settings = {})
      : model_(make_gpt(shape, sequences, settings)),
        blocks_(gpt_blocks(shape, gpt_flat_space(shape))) {}

  // For the calls that follow; kept by reference.
  void use(std::span<const float> weights) {
    weights_ = weights;
    model_->weights_changed();
  }
  double accumulate(std::span<const Token> tokens, std::span<float> gradient, bool fresh = false) {
    WholeBlockStore store(blocks_, weights_, gradient);
    return model_->accumulate(tokens, store, fresh);
  }

 private:
  std::unique_ptr<Gpt> model_;
  std::vector<ElementRange> blocks_;
  std::span<const float> weights_;
};

}  // namespace muster::test
