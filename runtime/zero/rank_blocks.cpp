#include "runtime/zero/rank_blocks.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "runtime/checkpoint/flat_space.h"
#include "runtime/memory/bf16.h"
#include "runtime/memory/vector_loops.h"
#include "runtime/report/spent_time.h"

namespace muster {
namespace {

// result = left + right; where the result is one of both, the sum is formed in place.
void add_to(float* left, float* right, std::size_t count, float* result) {
  if (result == left) return add_into(right, count, left);
  if (result == right) return add_into(left, count, right);
  add(left, right, count, result);
}

// The sum of the nodes in the order of the tree; the last sum is formed in `result`.
void join_nodes(const Division& division, std::span<float* const> nodes, std::size_t count,
                float* result) {
  std::size_t sums_left = nodes.size() - 1;
  if (sums_left == 0 && nodes[0] != result) std::copy_n(nodes[0], count, result);
  TreeJoin join([&](std::size_t left, std::size_t right) {
    add_to(nodes[left], nodes[right], count, --sums_left == 0 ? result : nodes[left]);
  });
  std::size_t place = 0;
  for (const auto& of_rank : division.nodes) {
    for (const Subtree& node : of_rank) join.push(node, place++);
  }
  join.finish();
}

Bucket one_block(std::span<const ElementRange> blocks, std::size_t block,
                 const BucketLimits& limits) {
  return make_buckets(blocks.subspan(block, 1), limits, block).front();
}

}  // namespace

GradientReduction::GradientReduction(const Division& division, Communicator& ranks,
                                     std::size_t most_under_way, double& spent_s)
    : division_(division), ranks_(ranks), most_under_way_(most_under_way), spent_s_(spent_s) {
  for (const auto& nodes : division.nodes) rounds_ = std::max(rounds_, nodes.size());
}

std::uint64_t GradientReduction::start(const ElementRange& piece, std::span<float* const> nodes,
                                       float* result) {
  const SpentTime spent(spent_s_);
  while (under_way_.size() >= most_under_way_) join_first();
  const std::vector<ElementRange> owned = parts_within(division_.owned, piece);
  const ElementRange own = owned[division_.rank];
  std::vector<ElementRange> out = owned;
  out[division_.rank] = {};
  Piece& added = under_way_.emplace_back();
  added.own_count = own.size();
  added.result = result;
  receive_into(added);
  std::size_t received = 0;
  std::vector<std::vector<ElementRange>> in(rounds_, std::vector<ElementRange>(owned.size()));
  for (std::size_t r = 0; r < owned.size(); ++r) {
    for (std::size_t node = 0; node < division_.nodes[r].size(); ++node) {
      if (r == division_.rank) {
        added.nodes.push_back(nodes[node] + own.lo);
        continue;
      }
      in[node][r] = {received * own.size(), (received + 1) * own.size()};
      added.nodes.push_back(added.received.data() + in[node][r].lo);
      ++received;
    }
  }
  for (std::size_t round = 0; round < rounds_; ++round) {
    const bool sends = round < nodes.size();
    added.rounds.push_back(ranks_.start_all_to_all(
        sends ? std::span<const float>(nodes[round], piece.size()) : std::span<const float>(),
        sends ? out : std::vector<ElementRange>(out.size()), added.received, in[round]));
  }
  return ++started_;
}

void GradientReduction::receive_into(Piece& piece) {
  if (!free_.empty()) {
    piece.received = std::move(free_.front());
    free_.pop_front();
  }
  std::size_t others = 0;
  for (std::size_t r = 0; r < division_.nodes.size(); ++r) {
    if (r != division_.rank) others += division_.nodes[r].size();
  }
  const std::size_t needed = others * piece.own_count;
  if (piece.received.size() < needed) piece.received.resize(needed);
}

void GradientReduction::join_first() {
  Piece& piece = under_way_.front();
  for (const auto& round : piece.rounds) round->wait();
  if (piece.own_count > 0) join_nodes(division_, piece.nodes, piece.own_count, piece.result);
  free_.push_back(std::move(piece.received));
  under_way_.pop_front();
  ++finished_;
}

void GradientReduction::progress() {
  const SpentTime spent(spent_s_);
  bool all_before = true;
  std::size_t ready = 0;
  for (const Piece& piece : under_way_) {
    bool done = true;
    for (const auto& round : piece.rounds) done = round->done() && done;
    all_before = all_before && done;
    if (all_before) ++ready;
  }
  while (ready-- > 0) join_first();
}

void GradientReduction::finish(std::uint64_t number) {
  const SpentTime spent(spent_s_);
  while (finished_ < number && !under_way_.empty()) join_first();
}

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
void WholeGradients::begin_leaf(std::size_t leaf, bool is_last) {
  for (const auto& [left, right] : joins_) {
    add_into(slots_[right].data(), plan_.numel, slots_[left].data());
  }
  joins_.clear();
  slot_ = take_slot();
  join_->push({leaf, 1}, slot_);
  if (!is_last) return;
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

std::uint64_t WholeGradients::hash_of_shares() const {
  const ElementRange& own = division_.own();
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const std::span<const float> slot = slots_[nodes_[i]];
    hash += plane_hash(i, 0, slot.first(own.lo)) + plane_hash(i, own.hi, slot.subspan(own.hi));
  }
  return hash;
}

StreamedGradients::OpenBucket StreamedGradients::open(std::size_t index) {
  const ElementRange& elements = plan_.buckets[index].elements;
  const ElementRange& own = division_.own();
  if (elements.lo >= own.lo && elements.hi <= own.hi) {
    return {std::span(own_).subspan(elements.lo - own.lo, elements.size()), nullptr};
  }
  Buffer& buffer = index == 0 ? first_ : turns_[turn_++ % 2];
  reduction_.finish(buffer.last_sent);
  if (buffer.memory.size() < elements.size()) buffer.memory.resize(elements.size());
  return {std::span(buffer.memory).first(elements.size()), &buffer};
}

std::span<float> StreamedGradients::block(std::size_t block) {
  const std::size_t index = bucket_of_[block];
  if (!open_[index]) open_[index] = open(index);
  const ElementRange& range = plan_.blocks[block];
  return open_[index]->memory.subspan(range.lo - plan_.buckets[index].elements.lo, range.size());
}

void StreamedGradients::block_done(std::size_t block, bool) {
  const std::size_t index = bucket_of_[block];
  const Bucket& bucket = plan_.buckets[index];
  if (block != bucket.first_block) return;
  for (const ElementRange& piece : bucket.pieces) {
    float* node = &open_[index]->memory[piece.lo - bucket.elements.lo];
    const ElementRange own = part_within(piece, division_.own());
    const std::uint64_t number = reduction_.start(piece, {&node, 1}, own_.data() + own.lo);
    if (open_[index]->buffer != nullptr) open_[index]->buffer->last_sent = number;
  }
  open_[index].reset();
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

ShardedWeights::ShardedWeights(std::span<const ElementRange> blocks, const BucketLimits& limits,
                               const Division& division, Communicator& ranks, double& spent_s)
    : WeightMemory(blocks, division, ranks, spent_s),
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

RankBlocks::RankBlocks(std::size_t blocks, WeightMemory& weights, GradientMemory& gradients,
                       GradientReduction& reduction)
    : weights_(weights), gradients_(gradients), reduction_(reduction) {
  for (auto& taken : taken_) taken.resize(blocks);
}

void RankBlocks::set_taken(Kind kind, std::size_t block, bool taken) {
  if (taken_[kind].at(block) == taken) {
    throw std::logic_error("block " + std::to_string(block) + ": its " +
                           (kind == weight ? "weight" : "gradient") + " was " +
                           (taken ? "taken twice" : "released without being acquired") +
                           ": a defect of the model");
  }
  taken_[kind][block] = taken;
}

void RankBlocks::progress() {
  reduction_.progress();
  weights_.progress();
}

std::span<const float> RankBlocks::weights(std::size_t block) {
  set_taken(weight, block, true);
  progress();
  return weights_.take(block);
}

std::span<float> RankBlocks::gradient(std::size_t block) {
  set_taken(sum, block, true);
  return gradients_.block(block);
}

void RankBlocks::gradient_done(std::size_t block) {
  set_taken(sum, block, false);
  if (flips_ && is_last_pass_ && block == 0) {
    flip_top_bit(gradients_.block(block).front());
    flips_ = false;
  }
  gradients_.block_done(block, is_last_pass_);
}

void TracedBlocks::end_phase(SpanKind kind) {
  const std::int64_t now = steady_ns();
  trace_.add({phase_begin_ns_, now, kind, 0, 0});
  phase_begin_ns_ = now;
}

std::span<const float> TracedBlocks::weights(std::size_t block) {
  if (phase_ == Phase::idle && block == 0 && trace_.is_on()) {
    phase_ = Phase::forward;
    phase_begin_ns_ = steady_ns();
  }
  const std::span<const float> values = inner_.weights(block);
  if (phase_ == Phase::forward) block_begin_ns_ = steady_ns();
  return values;
}

void TracedBlocks::weights_done(std::size_t block) {
  if (phase_ == Phase::forward && is_layer(block)) end_block(SpanKind::layer_forward, block - 1);
  if (phase_ == Phase::backward && is_layer(block)) end_block(SpanKind::layer_backward, block - 1);
  if (phase_ == Phase::backward && block == last_) end_block(SpanKind::head_backward, 0);
  inner_.weights_done(block);
}

std::span<float> TracedBlocks::gradient(std::size_t block) {
  if (phase_ == Phase::forward) {
    end_block(SpanKind::head_forward, 0);
    end_phase(SpanKind::forward);
    phase_ = Phase::backward;
  }
  const std::span<float> values = inner_.gradient(block);
  if (phase_ == Phase::backward) block_begin_ns_ = steady_ns();
  return values;
}

void TracedBlocks::gradient_done(std::size_t block) {
  if (phase_ == Phase::backward && block == 0) end_block(SpanKind::embeddings_backward, 0);
  inner_.gradient_done(block);
  if (phase_ != Phase::backward) return;
  block_begin_ns_ = steady_ns();
  if (block != 0) return;
  end_phase(SpanKind::backward);
  phase_ = Phase::idle;
}

}  // namespace muster
