#include "health/fault_isolation/baseline.h"

#include <algorithm>
#include <cmath>

namespace muster {

namespace {

double at_rank(std::vector<double> values, std::size_t rank) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// Of two the faster one is the measure, and its distance (none) the noise: a bad pair of two is
// no reason to believe in noise.
double upper_median(const std::vector<double>& values) {
  return at_rank(values, values.size() / 2);
}
double lower_median(const std::vector<double>& values) {
  return values.empty() ? 0 : at_rank(values, (values.size() - 1) / 2);
}

double relative(double value, double median) {
  return median > 0 ? value / median - 1 : 0;
}

// The standard deviation of a normal distribution is 1.4826 times its median distance.
constexpr double deviations_per_median_distance = 1.4826;

}  // namespace

Baseline::Baseline(std::vector<std::vector<double>> values_by_lane, std::optional<double> floor,
                   const SearchLimits& limits)
    : floor_(floor), limits_(limits) {
  std::vector<double> distances;
  for (const auto& values : values_by_lane) {
    medians_.push_back(upper_median(values));
    for (const double value : values)
      distances.push_back(std::abs(relative(value, medians_.back())));
  }
  noise_ = deviations_per_median_distance * lower_median(distances);
}

double Baseline::deviation(std::size_t lane, double value) const {
  return lane < medians_.size() ? relative(value, medians_[lane]) : 0;
}

PairGrade Baseline::grade(std::size_t lane, std::optional<double> value) const {
  if (!value) return PairGrade::unknown;
  const double off = deviation(lane, *value);
  if ((floor_ && *value < *floor_) || off < -limits_.bad_below_median) return PairGrade::bad;
  return off < -limits_.doubtful_below_median ? PairGrade::doubtful : PairGrade::good;
}

bool is_beyond_noise(double mean_deviation, std::size_t count, double noise, double deviations) {
  if (count == 0) return false;
  return mean_deviation <= -deviations * noise / std::sqrt(static_cast<double>(count));
}

}  // namespace muster
