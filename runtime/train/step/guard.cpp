#include "runtime/train/step/guard.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/flat_space.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/communicator/mesh/mesh.h"
#include "runtime/protocol/number_text.h"

namespace muster {
namespace {

// Losses that hardly move would make any change stand out.
constexpr double least_relative_deviation = 1e-3;
constexpr double deviations_of_mad = 1.4826;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double median(const std::deque<double>& values) {
  return median(std::vector<double>(values.begin(), values.end()));
}

constexpr std::uint64_t steps_between_replays = 20;

// A launcher reads these: only what a rank in doubt says accuses anybody.
std::string doubt_sentence(const HardwareDoubt& doubt, std::uint64_t rank,
                           const std::string& host) {
  if (doubt.ranks.empty()) return "hardware in doubt: " + doubt.what;
  if (std::count(doubt.ranks.begin(), doubt.ranks.end(), rank) > 0) {
    return "rank " + std::to_string(rank) + " on " + host + ": hardware in doubt: " + doubt.what;
  }
  return "ends because the hardware of rank " + std::to_string(doubt.ranks.front()) +
         " is in doubt";
}

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

// Says on stderr why the run ends.
int end_after(int exit_code, Communicator& ranks, const std::function<std::string()>& sentence) {
  try {
    std::fprintf(stderr, "muster-train: %s\n", sentence().c_str());
    (void)ranks.gather_texts("");  // nobody ends before it is said
  } catch (const PeerLost&) {
    // That one has ended.
  }
  return exit_code;
}

}  // namespace

double LossWindow::loss_z(double loss) const {
  if (losses_.size() < loss_window_least) return 0;
  const double middle = median(losses_);
  std::vector<double> distances;
  for (const double value : losses_) distances.push_back(std::fabs(value - middle));
  const double deviation = std::max(deviations_of_mad * median(std::move(distances)),
                                    least_relative_deviation * std::fabs(middle));
  return deviation > 0 ? (loss - middle) / deviation : 0;
}

std::optional<double> LossWindow::recent_loss() const {
  if (losses_.size() < loss_window_least) return std::nullopt;
  const auto first = losses_.end() - std::ptrdiff_t{loss_window_least};
  return median(std::vector<double>(first, losses_.end()));
}

double LossWindow::norm_ratio(double gradient_norm) const {
  if (norms_.size() < loss_window_least) return 0;
  const double middle = median(norms_);
  return middle > 0 ? gradient_norm / middle : 0;
}

LossWindow::Look LossWindow::look(double loss, double gradient_norm) const {
  if (!std::isfinite(loss) || !std::isfinite(gradient_norm)) return Look::not_finite;
  const bool usual =
      std::fabs(loss_z(loss)) < doubtful_loss_z && norm_ratio(gradient_norm) < doubtful_norm_ratio;
  return usual ? Look::usual : Look::stands_out;
}

void LossWindow::add(double loss, double gradient_norm) {
  if (!std::isfinite(loss) || !std::isfinite(gradient_norm)) return;
  losses_.push_back(loss);
  norms_.push_back(gradient_norm);
  if (losses_.size() <= loss_window_steps) return;
  losses_.pop_front();
  norms_.pop_front();
}

std::optional<HardwareDoubt> judge_replicas(std::span<const std::uint64_t> hashes) {
  std::map<std::uint64_t, std::size_t> votes;
  for (const std::uint64_t hash : hashes) ++votes[hash];
  if (votes.size() <= 1) return std::nullopt;
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  HardwareDoubt doubt;
  if (most->second * 2 <= hashes.size()) {
    doubt.what = "the weights of the ranks differ, and it is unknown which are right";
    return doubt;
  }
  doubt.what = "its weights differ from those of the other ranks";
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != most->first) doubt.ranks.push_back(rank);
  }
  return doubt;
}

std::optional<HardwareDoubt> judge_replay(std::uint64_t step,
                                          std::span<const std::string> differences) {
  HardwareDoubt doubt;
  for (std::size_t rank = 0; rank < differences.size(); ++rank) {
    if (differences[rank].empty()) continue;
    doubt.ranks.push_back(rank);
    doubt.what = "step " + std::to_string(step) + " gave another " + differences[rank] +
                 " when it was computed again";
  }
  if (doubt.ranks.empty()) return std::nullopt;
  return doubt;
}

std::optional<HardwareDoubt> compare_replicas(std::span<const float> weights, std::uint64_t step,
                                              Communicator& ranks) {
  auto doubt = judge_replicas(gather_values(ranks, plane_hash(0, 0, weights)));
  if (doubt) doubt->what += ", after step " + std::to_string(step);
  return doubt;
}

bool ReplayRule::is_due(std::uint64_t step, LossWindow::Look look) {
  if (look == LossWindow::Look::usual) return false;
  const bool is_recent = last_ && step < *last_ + steps_between_replays;
  if (look == LossWindow::Look::stands_out && is_recent) return false;
  last_ = step;
  return true;
}

int end_in_doubt(const HardwareDoubt& doubt, std::uint64_t rank, const std::string& host,
                 Communicator& ranks) {
  return end_after(exit_hardware_doubt, ranks, [&] { return doubt_sentence(doubt, rank, host); });
}

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
  return end_after(exit_diverged, ranks, [&] {
    const std::string mine = ranks.rank() == 0 ? advice(divergence, place) : "";
    return "diverged: " + divergence.what + ": " + from_rank_0(ranks, mine);
  });
}

}  // namespace muster
