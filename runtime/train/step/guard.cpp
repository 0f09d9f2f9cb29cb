#include "runtime/train/step/guard.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "runtime/checkpoint/tensor_stats.h"
#include "runtime/communicator/mesh/mesh.h"

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
  std::fprintf(stderr, "muster-train: %s\n", doubt_sentence(doubt, rank, host).c_str());
  try {
    (void)ranks.gather_texts("");  // nobody ends before it is said
  } catch (const PeerLost&) {
    // That one has ended.
  }
  return exit_hardware_doubt;
}

}  // namespace muster
