// A store of blocks that writes down when the model computes with which block, and is another one
// otherwise: what lies between taking a block and giving it back is forward or backward of it.
#pragma once

#include "runtime/model/gpt.h"
#include "runtime/report/trace.h"

namespace muster {

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
  void end_block(SpanKind kind, std::size_t layer);
  void end_phase(SpanKind kind);

  BlockStore& inner_;
  Trace& trace_;
  std::size_t last_;
  Phase phase_ = Phase::idle;
  std::int64_t phase_begin_ns_ = 0;
  std::int64_t block_begin_ns_ = 0;
};

}  // namespace muster
