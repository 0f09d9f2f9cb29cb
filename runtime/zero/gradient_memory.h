// Where gradients of this rank's leaves are summed, and how they leave it, bucket by bucket.
//
//   per leaf          begin_leaf()
//   per micro-batch   block(b), sums are added, block_done(b), for all blocks
//   last micro-batch  what is complete starts on its way to the owners at once
//   finish()          reduced(): sums over all ranks of the elements that this rank owns
//
// Two ways: whole gradients of the leaf tree's nodes, and only a few buckets at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "runtime/communicator/leaf_tree.h"
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
};

// As many elements as the model per node of the tree: any number of leaves and micro-batches. A
// rank without a leaf takes part in the sums of the others.
class WholeGradients final : public GradientMemory {
 public:
  WholeGradients(const GradientPlan& plan, const Division& division, GradientReduction& reduction);

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

  const GradientPlan& plan_;
  const Division& division_;
  GradientReduction& reduction_;
  std::vector<std::size_t> bucket_of_;  // by block
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
                    GradientReduction& reduction);

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

  const GradientPlan& plan_;
  const Division& division_;
  GradientReduction& reduction_;
  std::vector<std::size_t> bucket_of_;           // by block
  std::vector<std::optional<OpenBucket>> open_;  // by bucket
  std::vector<float> own_;
  Buffer first_;     // of the bucket with the embeddings, which is open from the head on
  Buffer turns_[2];  // of the others
  std::size_t turn_ = 0;
};

}  // namespace muster
