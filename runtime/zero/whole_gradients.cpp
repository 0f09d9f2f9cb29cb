#include "runtime/checkpoint/tensor_stats.h"
#include "runtime/memory/add.h"
#include "runtime/report/spent_time.h"
#include "runtime/zero/gradient_memory.h"
#include "runtime/zero/weight_memory.h"

namespace muster {

WholeGradients::WholeGradients(const GradientPlan& plan, const Division& division,
                               GradientReduction& reduction)
    : plan_(plan),
      division_(division),
      reduction_(reduction),
      bucket_of_(buckets_of_blocks(plan.buckets, plan.blocks.size())) {}

void WholeGradients::begin_step() {
  free_slots_.insert(free_slots_.end(), nodes_.begin(), nodes_.end());
  nodes_.clear();
  joins_.clear();
  join_.emplace([this](std::size_t left, std::size_t right) {
    joins_.emplace_back(left, right);
    free_slots_.push_back(right);
  });
}

// What the tree joins after a leaf is known before it: it is done when the next one begins, and of
// the last one bucket by bucket. A slot that is then free is taken no sooner.
void WholeGradients::begin_leaf(const LeafTurn& turn) {
  for (const auto& [left, right] : joins_) {
    add_into(slots_[right].data(), plan_.numel, slots_[left].data());
  }
  joins_.clear();
  slot_ = take_slot();
  join_->push({turn.leaf, 1}, slot_);
  if (!turn.is_last) return;
  for (const TreeJoin::Entry& entry : join_->entries()) nodes_.push_back(entry.slot);
  result_ = nodes_.front();
}

std::size_t WholeGradients::take_slot() {
  if (free_slots_.empty()) {
    slots_.emplace_back(plan_.numel);
    free_slots_.push_back(slots_.size() - 1);
  }
  const std::size_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

// Buckets leave the other ranks as a backward pass goes, from the last to the first.
void WholeGradients::finish() {
  if (nodes_.empty()) {
    result_ = take_slot();
    for (auto bucket = plan_.buckets.rbegin(); bucket != plan_.buckets.rend(); ++bucket) {
      send(*bucket);
    }
    free_slots_.push_back(result_);
  }
  reduction_.finish_all();
}

std::span<float> WholeGradients::block(std::size_t block) {
  const ElementRange& range = plan_.blocks[block];
  return std::span(slots_[slot_]).subspan(range.lo, range.size());
}

void WholeGradients::block_done(std::size_t block, bool complete) {
  const Bucket& bucket = plan_.buckets[bucket_of_[block]];
  if (complete && block == bucket.first_block) send(bucket);
}

void WholeGradients::send(const Bucket& bucket) {
  const std::uint64_t lo = bucket.elements.lo;
  for (const auto& [left, right] : joins_) {
    add_into(&slots_[right][lo], bucket.elements.size(), &slots_[left][lo]);
  }
  for (const ElementRange& piece : bucket.pieces) {
    std::vector<float*> nodes;
    for (const std::size_t slot : nodes_) nodes.push_back(&slots_[slot][piece.lo]);
    const ElementRange own = part_within(division_.own(), piece);
    reduction_.start(piece, nodes, &slots_[result_][piece.lo] + own.lo);
  }
}

std::span<const float> WholeGradients::reduced() const {
  return std::span(slots_[result_]).subspan(division_.own().lo, division_.own().size());
}

std::uint64_t WholeGradients::hash_of_shares() const {
  const ElementRange& own = division_.own();
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const std::span<const float> slot = slots_[nodes_[i]];
    hash += plane_hash(i, 0, slot.first(own.lo)) + plane_hash(i, own.hi, slot.subspan(own.hi));
  }
  return hash;
}

WholeWeights::WholeWeights(std::span<const ElementRange> blocks, const Division& division,
                           Communicator& ranks, bool shares, double& spent_s)
    : blocks_(blocks), division_(division), ranks_(ranks), shares_(shares), spent_s_(spent_s) {}

std::span<const float> WholeWeights::take(std::size_t block) {
  return weights_.subspan(blocks_[block].lo, blocks_[block].size());
}

void WholeWeights::updated(const ElementRange& piece) {
  if (!shares_) return;
  const SpentTime spent(spent_s_);
  under_way_.push_back(ranks_.start_all_gather(weights_.subspan(piece.lo, piece.size()),
                                               parts_within(division_.owned, piece)));
}

void WholeWeights::progress() {
  const SpentTime spent(spent_s_);
  for (const auto& transfer : under_way_) transfer->done();
}

void WholeWeights::finish() {
  const SpentTime spent(spent_s_);
  for (const auto& transfer : under_way_) transfer->wait();
  under_way_.clear();
}

}  // namespace muster
