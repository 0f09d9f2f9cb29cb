#include "runtime/zero/weight_memory.h"

#include <algorithm>

#include "runtime/report/spent_time.h"

namespace muster {
namespace {

Bucket one_block(std::span<const ElementRange> blocks, std::size_t block,
                 const BucketLimits& limits) {
  return make_buckets(blocks.subspan(block, 1), limits, block).front();
}

}  // namespace

WholeWeights::WholeWeights(std::span<const ElementRange> blocks, const Division& division,
                           Communicator& ranks, bool shares, double& spent_s)
    : blocks_(blocks), division_(division), ranks_(ranks), shares_(shares), spent_s_(spent_s) {}

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

ShardedWeights::ShardedWeights(std::span<const ElementRange> blocks, const BucketLimits& limits,
                               const Division& division, Communicator& ranks, double& spent_s)
    : blocks_(blocks),
      division_(division),
      ranks_(ranks),
      spent_s_(spent_s),
      layers_(make_buckets(blocks.subspan(1, blocks.size() - 2), limits, 1)),
      bucket_of_(buckets_of_blocks(layers_, blocks.size())),
      ends_{one_block(blocks, 0, limits), one_block(blocks, blocks.size() - 1, limits)} {}

void ShardedWeights::begin_step(std::span<float> weights) {
  own_ = weights;
  last_taken_ = 0;
  for (Turn& turn : turns_) turn.bucket.reset();
  gather(ends_[0], end_copies_[0]);
  turn_with(0, nullptr);
  gather(ends_[1], end_copies_[1]);
}

void ShardedWeights::gather(const Bucket& bucket, Copy& copy) {
  const SpentTime spent(spent_s_);
  const ElementRange own = part_within(division_.own(), bucket.elements);
  const std::span<float> mine =
      own_.subspan(part_within(bucket.elements, division_.own()).lo, own.size());
  if (own.size() == bucket.elements.size()) {
    copy.values = mine;
  } else {
    if (copy.memory.size() < bucket.elements.size()) copy.memory.resize(bucket.elements.size());
    copy.values = std::span(copy.memory).first(bucket.elements.size());
    std::copy(mine.begin(), mine.end(), copy.values.begin() + static_cast<std::ptrdiff_t>(own.lo));
  }
  for (const ElementRange& piece : bucket.pieces) {
    copy.under_way.push_back(
        ranks_.start_all_gather(copy.values.subspan(piece.lo - bucket.elements.lo, piece.size()),
                                parts_within(division_.owned, piece)));
  }
}

void ShardedWeights::wait_for(Copy& copy) {
  const SpentTime spent(spent_s_);
  for (const auto& transfer : copy.under_way) transfer->wait();
  copy.under_way.clear();
}

// The place that holds the bucket, or will: `kept` is not given away.
ShardedWeights::Turn& ShardedWeights::turn_with(std::size_t bucket, const Turn* kept) {
  for (Turn& turn : turns_) {
    if (turn.bucket == bucket) return turn;
  }
  Turn& turn = &turns_[0] == kept ? turns_[1] : turns_[0];
  wait_for(turn);
  turn.bucket = bucket;
  gather(layers_[bucket], turn);
  return turn;
}

std::span<const float> ShardedWeights::take(std::size_t block) {
  if (block != 0 && block + 1 != blocks_.size()) return take_layer(block);
  Copy& copy = end_copies_[block == 0 ? 0 : 1];
  wait_for(copy);
  return copy.values;
}

// Blocks come in order; at either end they turn round.
std::span<const float> ShardedWeights::take_layer(std::size_t block) {
  const bool goes_up = block > last_taken_ || (block == 1 && last_taken_ == 1);
  last_taken_ = block;
  const std::size_t index = bucket_of_[block];
  Turn& turn = turn_with(index, nullptr);
  wait_for(turn);
  if (goes_up && index + 1 < layers_.size()) turn_with(index + 1, &turn);
  if (!goes_up && index > 0) turn_with(index - 1, &turn);
  return turn.values.subspan(blocks_[block].lo - layers_[index].elements.lo, blocks_[block].size());
}

void ShardedWeights::idle_pass() {
  const std::size_t layers = blocks_.size() - 2;
  take(0);
  for (std::size_t block = 1; block <= layers; ++block) take_layer(block);
  for (std::size_t block = layers; block > 0; --block) take_layer(block);
}

void ShardedWeights::progress() {
  const SpentTime spent(spent_s_);
  for (Copy& copy : end_copies_) {
    for (const auto& transfer : copy.under_way) transfer->done();
  }
  for (Turn& turn : turns_) {
    for (const auto& transfer : turn.under_way) transfer->done();
  }
}

void ShardedWeights::finish() {
  for (Copy& copy : end_copies_) wait_for(copy);
  for (Turn& turn : turns_) wait_for(turn);
}

}  // namespace muster
