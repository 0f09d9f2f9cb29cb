// Where gradients of this rank's leaves are summed, and how they leave it, bucket by bucket.
//
//   per leaf          begin_leaf()
//   per micro-batch   block(b), sums are added, block_done(b), for all blocks
//   last micro-batch  what is complete starts on its way to the owners at once
//   finish()          reduced(): sums over all ranks of the elements that this rank owns
//
// Two ways: whole gradients of the leaf tree's nodes, and only a few buckets at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "runtime/model/gpt.h"
#include "runtime/report/trace.h"
#include "runtime/zero/bucket.h"

namespace muster {

// The reduce-scatter of gradients in the order of the leaf tree, while the rank computes on.
//
// Every rank sends its nodes of the tree to the owners of their elements, who join the rest of the
// tree: the sums do not depend on which part is sent when. One all-to-all per piece and node that
// the rank with most of them holds; with a power of two of ranks, one per piece. Collective: all
// ranks start the same pieces in the same order.
class GradientReduction {
 public:
  // At most `most_under_way` pieces at a time, which bounds the memory for what is received. The
  // time that its methods take is added to `spent_s`. Everything passed by reference outlives this.
  GradientReduction(const Division& division, Communicator& ranks, std::size_t most_under_way,
                    double& spent_s);

  // nodes[i] is where the i-th node of this rank has element piece.lo. `result` gets the sums of
  // this rank's own elements of the piece, one after the other; it may be where a node has them.
  // The piece is left alone until it is finished. Returns its number; the first one is 1.
  std::uint64_t start(const ElementRange& piece, std::span<float* const> nodes, float* result);

  // Lets what is under way move on; never blocks.
  void progress();

  // Waits for all pieces up to this number.
  void finish(std::uint64_t number);
  void finish_all() { finish(started_); }

 private:
  struct Piece {
    std::uint64_t own_count = 0;
    std::vector<float*> nodes;  // of all ranks, where they have the own elements
    float* result = nullptr;
    std::vector<float> received;
    std::vector<std::unique_ptr<Transfer>> rounds;
  };

  void receive_into(Piece& piece);
  void join_first();

  const Division& division_;
  Communicator& ranks_;
  std::size_t most_under_way_;
  double& spent_s_;
  std::size_t rounds_ = 0;
  std::deque<Piece> under_way_;          // from the first to the last
  std::deque<std::vector<float>> free_;  // a step takes them as it gave them back, so sizes fit
  std::uint64_t started_ = 0;
  std::uint64_t finished_ = 0;
};

class GradientMemory {
 public:
  // Everything passed by reference outlives this.
  GradientMemory(const GradientPlan& plan, const Division& division, GradientReduction& reduction)
      : plan_(plan),
        division_(division),
        reduction_(reduction),
        bucket_of_(buckets_of_blocks(plan.buckets, plan.blocks.size())) {}
  virtual ~GradientMemory() = default;
  virtual void begin_step() {}
  // `is_last`: of this rank in the step.
  virtual void begin_leaf(std::size_t /*leaf*/, bool /*is_last*/) {}
  virtual std::span<float> block(std::size_t block) = 0;
  // `complete`: no micro-batch of the step adds to it any more.
  virtual void block_done(std::size_t block, bool complete) = 0;
  // After the last leaf; waits for the others.
  virtual void finish() = 0;
  // The own elements, after finish().
  virtual std::span<const float> reduced() const = 0;
  // Of this rank's share of what other ranks own, after finish(); 0 where it is not kept.
  virtual std::uint64_t hash_of_shares() const { return 0; }

 protected:
  const GradientPlan& plan_;
  const Division& division_;
  GradientReduction& reduction_;
  const std::vector<std::size_t> bucket_of_;  // by block
};

// As many elements as the model per node of the tree: any number of leaves and micro-batches. A
// rank without a leaf takes part in the sums of the others.
class WholeGradients final : public GradientMemory {
 public:
  using GradientMemory::GradientMemory;

  void begin_step() override;
  void begin_leaf(std::size_t leaf, bool is_last) override;
  std::span<float> block(std::size_t block) override;
  void block_done(std::size_t block, bool complete) override;
  void finish() override;
  std::span<const float> reduced() const override {
    return std::span(slots_[result_]).subspan(division_.own().lo, division_.own().size());
  }
  std::uint64_t hash_of_shares() const override;

  // All elements, of which the own ones are the reduced; the others may be overwritten.
  std::span<float> whole() { return slots_[result_]; }

 private:
  std::size_t take_slot();
  void send(const Bucket& bucket);

  std::vector<std::vector<float>> slots_;
  std::vector<std::size_t> free_slots_;
  std::optional<TreeJoin> join_;                            // of this step
  std::size_t slot_ = 0;                                    // of the leaf
  std::vector<std::pair<std::size_t, std::size_t>> joins_;  // slots (left, right) that wait
  std::vector<std::size_t> nodes_;  // slots of the nodes that are left at the end of the step
  std::size_t result_ = 0;          // the slot of the sums over all ranks
};

// The elements that this rank owns, the first bucket, and two more. For one leaf of one micro-batch
// per rank, where a bucket is complete as soon as it is there.
class StreamedGradients final : public GradientMemory {
 public:
  StreamedGradients(const GradientPlan& plan, const Division& division,
                    GradientReduction& reduction)
      : GradientMemory(plan, division, reduction),
        open_(plan.buckets.size()),
        own_(division.own().size()) {}

  std::span<float> block(std::size_t block) override;
  void block_done(std::size_t block, bool complete) override;
  void finish() override { reduction_.finish_all(); }
  std::span<const float> reduced() const override { return own_; }

 private:
  struct Buffer {
    std::vector<float> memory;
    std::uint64_t last_sent = 0;  // number of the last piece that left from here
  };
  struct OpenBucket {
    std::span<float> memory;
    Buffer* buffer = nullptr;  // none where the memory is that of the own elements
  };
  OpenBucket open(std::size_t index);

  std::vector<std::optional<OpenBucket>> open_;  // by bucket
  std::vector<float> own_;
  Buffer first_;     // of the bucket with the embeddings, which is open from the head on
  Buffer turns_[2];  // of the others
  std::size_t turn_ = 0;
};

// Where the weights lie that the model computes with.
//
//   begin_step()   the own weights are what they will be in this step
//   take(), done() around each use of a block; blocks come in order, up and down again
//   idle_pass()    takes part in the others' transfers where this rank has nothing to compute
//   updated()      after each piece of the flat space whose own part was updated
//   finish()       the step is over
//
// Two ways: all weights on every rank, and only the own ones with the layers at work. Collective.

using Transfers = std::vector<std::unique_ptr<Transfer>>;

class WeightMemory {
 public:
  // Everything passed by reference outlives this.
  WeightMemory(std::span<const ElementRange> blocks, const Division& division, Communicator& ranks,
               double& spent_s)
      : blocks_(blocks), division_(division), ranks_(ranks), spent_s_(spent_s) {}
  virtual ~WeightMemory() = default;
  virtual void begin_step(std::span<float> weights) = 0;
  virtual std::span<const float> take(std::size_t block) = 0;
  virtual void idle_pass() {}
  virtual void updated(const ElementRange&) {}
  virtual void progress() = 0;  // never blocks
  virtual void finish() = 0;

 protected:
  std::span<const ElementRange> blocks_;
  const Division& division_;
  Communicator& ranks_;
  double& spent_s_;
};

// Every rank holds all weights; owners send theirs to all as they are updated.
class WholeWeights final : public WeightMemory {
 public:
  // `shares`: whether there is anything to send, as opposed to all ranks updating all weights.
  WholeWeights(std::span<const ElementRange> blocks, const Division& division, Communicator& ranks,
               bool shares, double& spent_s)
      : WeightMemory(blocks, division, ranks, spent_s), shares_(shares) {}

  void begin_step(std::span<float> weights) override { weights_ = weights; }  // all of them
  std::span<const float> take(std::size_t block) override {
    return weights_.subspan(blocks_[block].lo, blocks_[block].size());
  }
  void updated(const ElementRange& piece) override;
  void progress() override;
  void finish() override;

 private:
  bool shares_;
  std::span<float> weights_;
  Transfers under_way_;
};

// A rank holds what it owns, copies of the first and the last block (embeddings, norm and head),
// and of two buckets of layers: the one at work and the next one, which is gathered meanwhile. With
// contiguous ownership most buckets come from one rank; a rank computes with its own ones where
// they are.
class ShardedWeights final : public WeightMemory {
 public:
  // `most_bytes`: of one transfer.
  ShardedWeights(std::span<const ElementRange> blocks, const BucketLimits& limits,
                 const Division& division, Communicator& ranks, double& spent_s);

  void begin_step(std::span<float> weights) override;  // the own ones
  std::span<const float> take(std::size_t block) override;
  void idle_pass() override;
  void progress() override;
  void finish() override;

 private:
  // A gathered part of the flat space.
  struct Copy {
    std::vector<float> memory;
    std::span<float> values;  // in memory, or where this rank owns all of it
    Transfers under_way;
  };
  struct Turn : Copy {
    std::optional<std::size_t> bucket;
  };

  void gather(const Bucket& bucket, Copy& copy);
  void wait_for(Copy& copy);
  Turn& turn_with(std::size_t bucket, const Turn* kept);
  std::span<const float> take_layer(std::size_t block);

  std::span<float> own_;
  std::vector<Bucket> layers_;
  std::vector<std::size_t> bucket_of_;  // by block
  std::array<Bucket, 2> ends_;          // the first and the last block
  std::array<Copy, 2> end_copies_;
  std::array<Turn, 2> turns_;
  std::size_t last_taken_ = 0;  // block
};

// The blocks of a rank's model: its weights and gradients wherever the stage keeps them. Whatever
// is under way to or from other ranks moves on whenever a block changes hands. Throws
// std::logic_error when a block is taken twice, or given back without.
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
