#include <algorithm>

#include "runtime/zero/gradient_memory.h"

namespace muster {

StreamedGradients::StreamedGradients(const GradientPlan& plan, const Division& division,
                                     GradientReduction& reduction)
    : plan_(plan),
      division_(division),
      reduction_(reduction),
      bucket_of_(buckets_of_blocks(plan.buckets, plan.blocks.size())),
      open_(plan.buckets.size()),
      own_(division.own().size()) {}

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

}  // namespace muster
