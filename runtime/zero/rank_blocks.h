// The blocks of a rank's model: its weights and gradients wherever the stage keeps them. Whatever
// is under way to or from other ranks moves on whenever a block changes hands. Throws
// std::logic_error when a block is taken twice, or given back without.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/model/gpt.h"
#include "runtime/report/trace.h"
#include "runtime/zero/gradient_memory.h"
#include "runtime/zero/weight_memory.h"

namespace muster {

class RankBlocks final : public BlockStore {
 public:
  // Everything passed by reference outlives this.
  RankBlocks(std::size_t blocks, WeightMemory& weights, GradientMemory& gradients,
             GradientReduction& reduction);

  // Whether the pass that begins is the step's last, after which gradients are complete.
  void begin_pass(bool is_last) { is_last_pass_ = is_last; }

  // Damages the first gradient of the next last pass, as a computer might that errs.
  void flip_next_gradient() { flips_ = true; }

  std::span<const float> weights(std::size_t block) override;
  void weights_done(std::size_t block) override { set_taken(weight, block, false); }
  std::span<float> gradient(std::size_t block) override;
  void gradient_done(std::size_t block) override;

 private:
  enum Kind : std::size_t { weight, sum };
  void set_taken(Kind kind, std::size_t block, bool taken);
  void progress();

  WeightMemory& weights_;
  GradientMemory& gradients_;
  GradientReduction& reduction_;
  std::array<std::vector<bool>, 2> taken_;  // by kind and block
  bool is_last_pass_ = false;
  bool flips_ = false;
};

// A store of blocks that writes down when the model computes with which block, and is another one
// otherwise: what lies between taking a block and giving it back is forward or backward of it.

class TracedBlocks final : public BlockStore {
 public:
  // `blocks`: how many there are. Both references outlive this object.
  TracedBlocks(BlockStore& inner, Trace& trace, std::size_t blocks)
      : inner_(inner), trace_(trace), last_(blocks - 1) {}

  std::span<const float> weights(std::size_t block) override;
  void weights_done(std::size_t block) override;
  std::span<float> gradient(std::size_t block) override;
  void gradient_done(std::size_t block) override;

 private:
  enum class Phase { idle, forward, backward };

  bool is_layer(std::size_t block) const { return block != 0 && block != last_; }
  void end_block(SpanKind kind, std::size_t layer) {
    trace_.add({block_begin_ns_, steady_ns(), kind, static_cast<std::uint32_t>(layer), 0});
  }
  void end_phase(SpanKind kind);

  BlockStore& inner_;
  Trace& trace_;
  std::size_t last_;
  Phase phase_ = Phase::idle;
  std::int64_t phase_begin_ns_ = 0;
  std::int64_t block_begin_ns_ = 0;
};

}  // namespace muster
