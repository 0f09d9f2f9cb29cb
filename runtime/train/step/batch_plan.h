// How the sequences of one step are cut: leaves of the summation tree, and micro-batches inside a
// leaf.
//
// Leaves are as equal as whole micro-batches allow, and ranks own as equal numbers of leaves. In
// deterministic mode the leaves are fixed by the batch, so the bits of a step do not depend on the
// ranks: one per micro-batch, so that any number of ranks gets its share. Otherwise there is one
// per rank, whose forward pass takes the whole of it unless --micro-batch says less, which makes
// the largest matrix products. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/communicator/leaf_tree.h"
#include "runtime/train/step/options.h"

namespace muster {

// Sequences [lo, hi) of a step.
struct SequenceRange {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  std::uint64_t size() const { return hi - lo; }
};

struct BatchPlan {
  std::uint64_t batch = 0;        // sequences per step
  std::uint64_t leaves = 1;       // at least the number of ranks
  std::uint64_t micro_batch = 0;  // sequences per forward pass; of the largest where they differ
  bool whole_leaves = false;      // a forward pass is a leaf, however large that is

  SequenceRange sequences(const LeafRange& of) const;
  // Sequences of a forward pass in these leaves.
  std::uint64_t pass_sequences(const LeafRange& of) const {
    return whole_leaves ? sequences({of.lo, of.lo + 1}).size() : micro_batch;
  }
  std::uint64_t passes(const LeafRange& of) const {
    return whole_leaves ? of.hi - of.lo : sequences(of).size() / micro_batch;
  }
  // Forward passes of all ranks.
  std::uint64_t micro_batches() const { return passes({0, leaves}); }
  // Of the rank that has most.
  std::uint64_t most_sequences(std::size_t ranks) const;
  bool has_one_pass_per_rank(std::size_t ranks) const {
    return leaves == ranks && micro_batches() == ranks;
  }
};

// Throws StartError when the options do not fit each other or the number of ranks.
BatchPlan make_batch_plan(const TrainOptions& options, std::size_t ranks);

// What a person might not expect of it, in sentences: gradients that --zero leaves whole, ranks
// that wait for the slowest.
std::vector<std::string> sharing_remarks(const TrainOptions& options, std::size_t ranks);

}  // namespace muster
