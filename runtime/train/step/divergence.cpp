#include "runtime/train/step/divergence.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/communicator/mesh/mesh.h"
#include "runtime/protocol/number_text.h"

namespace muster {
namespace {

// The loss of a step is that of the state before it, which the step before may have spoilt.
std::uint64_t before(std::uint64_t step, std::uint64_t steps) {
  return step > steps ? step - steps : 0;
}

// What could not be quarantined, to be told.
std::string quarantine_since(const CheckpointSearch& search, const CheckpointPlace& place,
                             const Divergence& divergence) {
  std::string trouble;
  for (const FoundCheckpoint& found : search.usable) {
    if (found.step <= divergence.good_step) continue;
    const auto done = quarantine_checkpoint(
        place.root, {found.directory, "loss", place.generation, divergence.good_step + 1},
        "training diverged: " + divergence.what);
    if (!done) trouble += "; " + found.directory + " cannot be quarantined: " + done.reason();
  }
  return trouble;
}

std::string advice(const Divergence& divergence, const CheckpointPlace& place) {
  const std::string change = ", with a lower --lr, a longer --warmup or a lower --clip";
  if (place.root.empty()) return "start again" + change;
  const CheckpointSearch search = search_checkpoints(place.root);
  const std::string trouble = quarantine_since(search, place, divergence);
  const auto before = std::ranges::find_if(search.usable, [&](const FoundCheckpoint& found) {
    return found.step <= divergence.good_step;  // the newest stands first
  });
  if (before == search.usable.end()) {
    return "no checkpoint is from before it: start again (--resume none)" + change + trouble;
  }
  return "go back to step " + std::to_string(before->step) + " (" + before->directory + ")" +
         change + trouble;
}

}  // namespace

std::optional<Divergence> find_divergence(const TrainingProgress& at, std::uint64_t most_far_above,
                                          std::uint64_t most_skipped) {
  if (at.skipped_in_a_row >= most_skipped) {
    return Divergence{std::to_string(at.skipped_in_a_row) +
                          (at.skipped_in_a_row == 1 ? " step" : " steps in a row") +
                          " had a loss or gradient that is not finite",
                      before(at.step, at.skipped_in_a_row + 1)};
  }
  if (most_far_above == 0 || at.far_above_in_a_row < most_far_above) return std::nullopt;
  const std::string what = printed(
      "for %llu steps the loss has been far above the best of the run, %.4g after step "
      "%llu: it is about %.4g",
      static_cast<unsigned long long>(at.far_above_in_a_row), at.best_loss,
      static_cast<unsigned long long>(at.best_step), at.loss_ema);
  return Divergence{what, before(at.step, at.far_above_in_a_row + 1)};
}

std::optional<Divergence> find_divergence_at_end(const TrainingState& state,
                                                 std::uint64_t most_far_above,
                                                 Communicator& ranks) {
  const std::uint64_t enough = std::min(most_far_above, skipped_steps_limit);
  if (auto diverged = find_divergence(state, enough, 1)) return diverged;
  const auto own = state.own(state.weights);
  const bool finite =
      std::all_of(own.begin(), own.end(), [](float weight) { return std::isfinite(weight); });
  if (std::ranges::count(gather_values(ranks, finite), false) == 0) return std::nullopt;
  return Divergence{"some weights are not finite", before(state.step, 1)};
}

int end_diverged(const Divergence& divergence, const CheckpointPlace& place, Communicator& ranks) {
  try {
    const std::string mine = ranks.rank() == 0 ? advice(divergence, place) : "";
    const std::string what_to_do = from_rank_0(ranks, mine);
    std::fprintf(stderr, "muster-train: diverged: %s: %s\n", divergence.what.c_str(),
                 what_to_do.c_str());
    (void)ranks.gather_texts("");  // nobody ends before it is said
  } catch (const PeerLost&) {
    // That one has ended.
  }
  return exit_diverged;
}

}  // namespace muster
