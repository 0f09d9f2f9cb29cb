#include "runtime/train/step/training_state.h"

#include "runtime/checkpoint/flat_space.h"

namespace muster {

TrainingState make_training_state(const FlatSpace& space, ZeroStage stage, std::size_t rank,
                                  std::size_t ranks) {
  TrainingState state;
  state.owned = owned_elements(space, rank, ranks);
  const auto elements = [&](ZeroStage shared_from) {
    return stage >= shared_from ? state.owned.size() : space.numel;
  };
  state.weights.resize(elements(ZeroStage::weights));
  state.exp_avg.resize(elements(ZeroStage::moments));
  state.exp_avg_sq.resize(elements(ZeroStage::moments));
  return state;
}

void gather_copies(const FlatSpace& space, Communicator& ranks, TrainingState& state) {
  std::vector<ElementRange> owned;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    owned.push_back(owned_elements(space, r, ranks.size()));
  }
  for (std::vector<float>* plane : {&state.weights, &state.exp_avg, &state.exp_avg_sq}) {
    if (!state.holds_own_only(*plane)) ranks.all_gather(*plane, owned);
  }
}

std::uint64_t copies_hash(const TrainingState& state) {
  return state.holds_own_only(state.weights) ? 0 : plane_hash(0, 0, state.weights);
}

}  // namespace muster
