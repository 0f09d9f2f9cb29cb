// Doubt about the hardware: values that a computer got wrong without saying so.
//
// Two looks are taken. A step whose loss or gradient is not finite, or stands out (LossWindow),
// is computed again from the same state: a rank whose gradient has other bits then computes
// wrongly, for nothing else here is random; if all are the same, and so are the weights of the
// ranks, it is the data or the settings, and training goes on. And every so many steps all ranks
// compare what they hold of the weights. With --zero 1 to 3 a weight that its owner got wrong is
// sent to all and not found.
// Doubt ends the run with its own exit code and a sentence on stderr: the rank that is in doubt
// says what is wrong with it, so that a launcher can keep away from its node, and all others that
// they end because of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "runtime/train/step/options.h"
#include "runtime/train/step/training_state.h"

namespace muster {

// What losses and gradient norms have been lately, and how far a new one stands out.
//
// A loss is compared with the median of the last 200 in units of their median absolute deviation
// (times 1.4826, which is the standard deviation of a normal distribution); a norm with its median.
// Fewer than 20 say nothing. One spike hardly moves a median; a level that stays becomes the usual
// one. Pure.

inline constexpr std::size_t loss_window_steps = 200;
inline constexpr std::size_t loss_window_least = 20;
inline constexpr double doubtful_loss_z = 6;
inline constexpr double doubtful_norm_ratio = 10;

class LossWindow {
 public:
  // How a step that is not in the window yet looks beside it.
  enum class Look { usual, stands_out, not_finite };
  Look look(double loss, double gradient_norm) const;
  // Takes the step in, unless it is not finite.
  void add(double loss, double gradient_norm);

  // The median of the latest 20 losses; nothing while there are fewer.
  std::optional<double> recent_loss() const;
  // 0 while the window says nothing; a loss below the median counts as negative.
  double loss_z(double loss) const;
  double norm_ratio(double gradient_norm) const;

 private:
  std::deque<double> losses_;
  std::deque<double> norms_;
};

inline constexpr int exit_hardware_doubt = 3;

struct HardwareDoubt {
  std::vector<std::size_t> ranks;  // in doubt; empty: it is unknown which
  std::string what;                // such as "the weights differ from those of the other ranks"
};

// Hashes of what should be the same on all ranks, by rank. Those that differ from what more than
// half of the ranks hold are in doubt. Pure.
std::optional<HardwareDoubt> judge_replicas(std::span<const std::uint64_t> hashes);

// Whether every rank computed the same in both runs of step `step`; texts by rank, empty: the same.
// Pure.
std::optional<HardwareDoubt> judge_replay(std::uint64_t step,
                                          std::span<const std::string> differences);

// Compares the weights of all ranks. Collective.
std::optional<HardwareDoubt> compare_replicas(std::span<const float> weights, std::uint64_t step,
                                              Communicator& ranks);

// When a step is worth computing again: at once when it is not finite; a spike only when none was
// replayed in the 20 steps before.
class ReplayRule {
 public:
  bool is_due(std::uint64_t step, LossWindow::Look look);

 private:
  std::optional<std::uint64_t> last_;
};

// The sentence about the doubt of this rank, `rank` on `host`; the exit code. Collective.
int end_in_doubt(const HardwareDoubt& doubt, std::uint64_t rank, const std::string& host,
                 Communicator& ranks);

// Divergence: training that has gone wrong by itself, so that the same steps would go wrong again.
//
// Seen by losses or gradients that are not finite, several steps in a row, and by a loss that stays
// far above the best of the run. The steps of a level that stays would become usual ones to
// LossWindow; the best does not move with them, and goes from run to run in the checkpoints.
// A run that diverged ends with its own exit code and a sentence on stderr of every rank, which a
// launcher reads: it names the checkpoint to go back to and what to change. Those that were saved
// since are quarantined, so that no resume begins with one.

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
