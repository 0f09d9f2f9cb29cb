// Everything that training changes, and nothing that can be recomputed.
//
// A rank holds at least the elements that it owns, which is what it saves; copies of what others
// own are as many as the stage of --zero keeps. After step k of any run that began alike, the
// values are the same.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/communicator/communicator.h"

namespace muster {

// What ranks share instead of all holding all of it (ZeRO, Rajbhandari et al. 2020).
enum class ZeroStage {
  nothing,    // 0: each updates all weights
  moments,    // 1: of the optimizer; owners update
  gradients,  // 2: and their sums, where each rank passes once through the model per step
  weights,    // 3: and the weights, gathered layer by layer
};

struct TrainingProgress : LossHistory {
  std::uint64_t step = 0;  // finished updates
};

struct TrainingState : TrainingProgress {
  ElementRange owned;  // of this rank
  // Each [numel], or [owned.size()] where only the own elements are held.
  std::vector<float> weights;
  std::vector<float> exp_avg;
  std::vector<float> exp_avg_sq;

  // Elements of one of the three planes; the range is held.
  auto part(auto& plane, const ElementRange& range) const {
    return std::span(plane).subspan(range.lo - begin_of(plane), range.size());
  }
  auto own(auto& plane) const { return part(plane, owned); }
  std::array<std::span<const float>, 3> own_planes() const {
    return {own(weights), own(exp_avg), own(exp_avg_sq)};
  }
  bool holds_own_only(const std::vector<float>& plane) const {
    return plane.size() == owned.size();
  }

 private:
  std::uint64_t begin_of(const std::vector<float>& plane) const {
    return holds_own_only(plane) ? owned.lo : 0;
  }
};

// All zeros, as large as the stage says.
TrainingState make_training_state(const FlatSpace& space, ZeroStage stage, std::size_t rank,
                                  std::size_t ranks);

// Fills the copies of what others own from their owners. Collective.
void gather_copies(const FlatSpace& space, Communicator& ranks, TrainingState& state);

// Of all weights, the same on every rank; 0 where there are no copies to compare.
std::uint64_t copies_hash(const TrainingState& state);

}  // namespace muster
