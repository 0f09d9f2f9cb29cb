#include "runtime/estimate/processor_memory.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "runtime/communicator/mesh/pair_memory.h"
#include "runtime/layer/attention.h"
#include "runtime/train/save/memory.h"
#include "runtime/train/step/batch_plan.h"
#include "runtime/zero/gradient_plan.h"

namespace muster {
namespace {

constexpr std::uint64_t f32 = sizeof(float);
constexpr std::uint64_t bf16 = 2;

// Measured: the program with its libraries after a step of the smallest model, of which the
// products of oneDNN have a part for each thread.
constexpr std::uint64_t program_bytes = 28 << 20;
constexpr std::uint64_t thread_bytes = 4 << 20;

// In which final weights are collected on rank 0.
constexpr std::uint64_t final_weights_bytes = 16 << 20;

// Pieces of the gradient are not listed: many ranks make them small and many.
constexpr std::uint64_t uncut = std::uint64_t{1} << 62;

struct OneRank {
  OneRank(const TrainOptions& of, const FlatSpace& flat_space, const RankLayout& layout)
      : options(of),
        plan(make_batch_plan(of, layout.ranks)),
        space(flat_space),
        division(make_division(space, plan.leaves, 0, layout.ranks)),
        blocks(gpt_blocks(of.shape, space)),
        buckets(make_buckets(blocks, {of.buckets.least_bytes, uncut})) {}

  const TrainOptions& options;
  BatchPlan plan;
  const FlatSpace& space;
  Division division;
  std::vector<ElementRange> blocks;
  std::vector<Bucket> buckets;  // of gradients

  std::size_t ranks() const { return division.owned.size(); }
  std::uint64_t rows() const { return plan.micro_batch * options.shape.context; }
  bool owns(const ElementRange& range) const {
    return range.lo >= division.own().lo && range.hi <= division.own().hi;
  }
  std::uint64_t elements_held(ZeroStage shared_from) const {
    return options.zero >= shared_from ? division.own().size() : space.numel;
  }
};

// As many as WholeGradients has to have at one time: those of a leaf, and of every node of the tree
// that is waiting for its sibling. A slot that a join frees is taken no sooner than by the next
// leaf.
std::uint64_t gradient_slots(const OneRank& at, std::size_t rank) {
  const LeafRange leaves = owned_leaves(at.plan.leaves, rank, at.ranks());
  std::size_t slots = 0;
  std::vector<std::size_t> free;
  TreeJoin join([&](std::size_t, std::size_t right) { free.push_back(right); });
  for (std::size_t leaf = leaves.lo; leaf < leaves.hi; ++leaf) {
    if (free.empty()) free.push_back(slots++);
    const std::size_t slot = free.back();
    free.pop_back();
    join.push({leaf, 1}, slot);
  }
  return slots;
}

// Two that take turns, each as large as the largest that it ever has.
std::uint64_t two_turns(std::vector<std::uint64_t> sizes) {
  std::ranges::sort(sizes, std::greater());
  const std::uint64_t largest = sizes.empty() ? 0 : sizes.front();
  return sizes.size() > 1 ? 2 * largest : largest;
}

std::uint64_t gradient_elements(const OneRank& at) {
  const bool streams = at.options.zero >= ZeroStage::gradients &&
                       at.plan.has_one_pass_per_rank(at.ranks());
  if (!streams) return gradient_slots(at, at.division.rank) * at.space.numel;
  std::uint64_t elements = at.division.own().size();
  std::vector<std::uint64_t> turns;
  for (std::size_t i = 0; i < at.buckets.size(); ++i) {
    const ElementRange& range = at.buckets[i].elements;
    if (at.owns(range)) continue;
    if (i == 0) elements += range.size();
    if (i > 0) turns.push_back(range.size());
  }
  return elements + two_turns(std::move(turns));
}

// What others send of the pieces that may be under way.
std::uint64_t received_elements(const OneRank& at) {
  std::uint64_t nodes = 0;
  for (std::size_t r = 0; r < at.ranks(); ++r) {
    if (r != at.division.rank) nodes += at.division.nodes[r].size();
  }
  const std::uint64_t piece = most_piece_bytes(at.options.buckets, at.division) / f32;
  return std::min(pieces_under_way * piece, at.division.own().size()) * nodes;
}

// Of the layers at work and of both ends of the model, where they are not the rank's own.
std::uint64_t gathered_elements(const OneRank& at) {
  if (at.options.zero != ZeroStage::weights) return 0;
  const std::span<const ElementRange> blocks = at.blocks;
  std::uint64_t elements = 0;
  for (const ElementRange& end : {blocks.front(), blocks.back()}) {
    if (!at.owns(end)) elements += end.size();
  }
  std::vector<std::uint64_t> turns;
  for (const Bucket& bucket :
       make_buckets(blocks.subspan(1, blocks.size() - 2), at.options.buckets, 1)) {
    if (!at.owns(bucket.elements)) turns.push_back(bucket.elements.size());
  }
  return elements + two_turns(std::move(turns));
}

// The bf16 copies that matrix products read: of all blocks, or of both ends and one layer at a
// time.
std::uint64_t rounded_elements(const OneRank& at) {
  if (at.options.model.precision == Precision::fp32) return 0;
  if (at.options.zero != ZeroStage::weights) return at.space.numel;
  const std::vector<ElementRange>& blocks = at.blocks;
  std::uint64_t layer = 0;
  for (std::size_t i = 1; i + 1 < blocks.size(); ++i) layer = std::max(layer, blocks[i].size());
  return blocks.front().size() + blocks.back().size() + layer;
}

// The buffers of Gpt (model/gpt.cpp).
std::uint64_t activation_bytes(const OneRank& at) {
  const GptShape& shape = at.options.shape;
  const bool rounds = at.options.model.precision == Precision::bf16;
  const std::uint64_t operand = rounds ? bf16 : f32;
  const std::uint64_t m = at.rows(), c = shape.width;
  const std::uint64_t layers = at.options.model.recompute ? 1 : shape.layers;
  const std::uint64_t layer = (8 * m * c + 4 * m + m * shape.heads) * f32 + 7 * m * c * operand;
  const std::uint64_t inputs = (shape.layers + 1) * m * c * f32;
  const std::uint64_t ends = (2 * m + m * shape.vocabulary) * f32 + m * c * operand + m * f32;
  const std::uint64_t backward = 10 * m * c * f32;
  const std::uint64_t rounded = rounds ? (8 * m * c + m * shape.vocabulary) * bf16 : 0;
  const std::uint64_t scratch =
      attention_scratch_of_thread({at.plan.micro_batch, shape.context, shape.heads, c}) *
      static_cast<std::uint64_t>(at.options.threads) * f32;
  return layers * layer + inputs + ends + backward + rounded + scratch;
}

std::uint64_t sample_bytes(const OneRank& at) {
  const LeafRange leaves = owned_leaves(at.plan.leaves, at.division.rank, at.ranks());
  const std::uint64_t windows = at.plan.sequences(leaves).size();
  return 2 * windows * (at.options.shape.context + 1) * sizeof(std::uint32_t);
}

RankMemory memory_of(const OneRank& at, const RankLayout& layout) {
  RankMemory memory;
  memory.weights = at.elements_held(ZeroStage::weights) * f32 + rounded_elements(at) * bf16;
  memory.gradients = gradient_elements(at) * f32;
  memory.optimizer = 2 * at.elements_held(ZeroStage::moments) * f32;
  memory.activations = activation_bytes(at);
  memory.buffers = (received_elements(at) + gathered_elements(at)) * f32 + sample_bytes(at);
  memory.buffers += (std::min(layout.ranks_per_node, layout.ranks) - 1) * 2 * ring_bytes;
  if (at.options.zero == ZeroStage::weights && at.division.rank == 0 && at.ranks() > 1) {
    memory.buffers += std::min(final_weights_bytes, at.space.numel * f32);
  }
  const std::uint64_t saved = at.division.own().size() * flat_planes * f32;
  const bool saves =
      at.options.save_mode == SaveMode::background ||
      (at.options.save_mode == SaveMode::automatic && saved >= background_save_bytes);
  memory.snapshot = saves ? saved : 0;
  memory.program = program_bytes + thread_bytes * static_cast<std::uint64_t>(at.options.threads);
  return memory;
}

}  // namespace

// The first rank holds the embeddings, the last one the head of an untied model; those between are
// alike but for the nodes of the tree that they hold.
RankMemory processor_rank_memory(const TrainOptions& options, const RankLayout& layout) {
  const FlatSpace space = gpt_flat_space(options.shape);
  RankMemory most;
  OneRank at(options, space, layout);
  std::size_t most_slots = 0;
  for (std::size_t rank = 0; rank < layout.ranks; ++rank) {
    if (gradient_slots(at, rank) > gradient_slots(at, most_slots)) most_slots = rank;
  }
  for (const std::size_t rank : {std::size_t{0}, layout.ranks / 2, layout.ranks - 1, most_slots}) {
    at.division.rank = rank;
    const RankMemory memory = memory_of(at, layout);
    const auto bytes = [&](const RankMemory& of) { return device_bytes(of, layout.kind); };
    if (bytes(memory) > bytes(most)) most = memory;
  }
  return most;
}

}  // namespace muster
