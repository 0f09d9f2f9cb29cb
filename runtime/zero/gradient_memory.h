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
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/communicator/leaf_tree.h"
#include "runtime/zero/bucket.h"
#include "runtime/zero/gradient_plan.h"
#include "runtime/zero/gradient_reduction.h"

namespace muster {

// A place in the step.
struct LeafTurn {
  std::size_t leaf = 0;
  bool is_last = false;  // of this rank
};

class GradientMemory {
 public:
  virtual ~GradientMemory() = default;
  virtual void begin_step() = 0;
  virtual void begin_leaf(const LeafTurn& turn) = 0;
  virtual std::span<float> block(std::size_t block) = 0;
  // `complete`: no micro-batch of the step adds to it any more.
  virtual void block_done(std::size_t block, bool complete) = 0;
  // After the last leaf; waits for the others.
  virtual void finish() = 0;
  // The own elements, after finish().
  virtual std::span<const float> reduced() const = 0;
  // Of this rank's share of what other ranks own, after finish(); 0 where it is not kept.
  virtual std::uint64_t hash_of_shares() const = 0;
};

// As many elements as the model per node of the tree: any number of leaves and micro-batches. A
// rank without a leaf takes part in the sums of the others.
class WholeGradients final : public GradientMemory {
 public:
  WholeGradients(const GradientPlan& plan, const Division& division, GradientReduction& reduction);

  void begin_step() override;
  void begin_leaf(const LeafTurn& turn) override;
  std::span<float> block(std::size_t block) override;
  void block_done(std::size_t block, bool complete) override;
  void finish() override;
  std::span<const float> reduced() const override;
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

  void begin_step() override {}
  void begin_leaf(const LeafTurn&) override {}
  std::span<float> block(std::size_t block) override;
  void block_done(std::size_t block, bool complete) override;
  void finish() override { reduction_.finish_all(); }
  std::span<const float> reduced() const override { return own_; }
  std::uint64_t hash_of_shares() const override { return 0; }

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
