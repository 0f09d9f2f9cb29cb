#include "runtime/train/step/loss_window.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

}  // namespace muster
