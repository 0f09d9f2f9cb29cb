// Divergence: training that has gone wrong by itself, so that the same steps would go wrong again.
//
// Seen by losses or gradients that are not finite, several steps in a row, and by a loss that stays
// far above the best of the run. The steps of a level that stays would become usual ones to
// LossWindow; the best does not move with them, and goes from run to run in the checkpoints.
// A run that diverged ends with its own exit code and a sentence on stderr of every rank, which a
// launcher reads: it names the checkpoint to go back to and what to change. Those that were saved
// since are quarantined, so that no resume begins with one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/communicator/communicator.h"
#include "runtime/train/step/options.h"
#include "runtime/train/step/training_state.h"

namespace muster {

inline constexpr int exit_diverged = 4;

// So many steps in a row without an update: training has diverged.
inline constexpr std::uint64_t skipped_steps_limit = 10;

// Of nats per token: beyond what a bad batch does.
inline bool is_far_above(double loss, double best) {
  return best > 0 && loss > 1.5 * best + 0.5;
}

struct Divergence {
  std::string what;
  std::uint64_t good_step = 0;  // the last one whose state is not in doubt
};

// After a step; `most_skipped` and more in a row have diverged. Pure.
std::optional<Divergence> find_divergence(const TrainingProgress& at, std::uint64_t most_far_above,
                                          std::uint64_t most_skipped = skipped_steps_limit);

// After the last one, where fewer bad steps in a row are enough. Collective.
std::optional<Divergence> find_divergence_at_end(const TrainingState& state,
                                                 std::uint64_t most_far_above, Communicator& ranks);

struct CheckpointPlace {
  std::string root;  // empty: there are none
  std::uint64_t generation = 0;
};

// Quarantines what was saved since (rank 0) and says what to do; the exit code. No save is under
// way. Collective.
int end_diverged(const Divergence& divergence, const CheckpointPlace& place, Communicator& ranks);

}  // namespace muster
