// Where a model finds the weights of its blocks, and the memory for their gradients.
//
// A block is a run of neighbours in the flat space that is used at one time (gpt_blocks). The model
// takes a block before it computes with it and gives it back after, so that a store may hold few of
// them at a time, move them meanwhile, and know which gradients are complete. Nothing is taken
// twice at a time: a store may throw std::logic_error. One thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/checkpoint/flat_space.h"

namespace muster {

class BlockStore {
 public:
  virtual ~BlockStore() = default;

  // The weights of a block, its padding included, until weights_done().
  virtual std::span<const float> weights(std::size_t block) = 0;
  virtual void weights_done(std::size_t block) = 0;

  // Memory for the gradient of a block, its padding included. After gradient_done() it holds the
  // sum of all that was added since the last fresh one, and this pass adds no more.
  virtual std::span<float> gradient(std::size_t block) = 0;
  virtual void gradient_done(std::size_t block) = 0;
};

// All weights and all gradients, in memory of the caller.
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

}  // namespace muster
