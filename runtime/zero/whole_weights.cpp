#include "runtime/report/spent_time.h"
#include "runtime/zero/weight_memory.h"

namespace muster {

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
