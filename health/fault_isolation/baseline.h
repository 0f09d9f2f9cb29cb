// What is usual for one kind of test, from all results of it, and what a result is called beside
// that. Robust: the median and the median of the distances from it. One lane for tests over all
// rails, else one for each rail.
#pragma once

#include <optional>
#include <vector>

#include "health/fault_isolation/pair.h"

namespace muster {

enum class PairGrade { good, doubtful, bad, unknown };

class Baseline {
 public:
  Baseline() = default;
  Baseline(std::vector<std::vector<double>> values_by_lane, std::optional<double> floor,
           const SearchLimits& limits);

  PairGrade grade(std::size_t lane, std::optional<double> value) const;
  // From the median, as a fraction of it: -0.1 is 10 % slower.
  double deviation(std::size_t lane, double value) const;
  // One standard deviation of a healthy result, as a fraction.
  double noise() const { return noise_; }
  double median(std::size_t lane) const { return lane < medians_.size() ? medians_[lane] : 0; }

 private:
  std::vector<double> medians_;
  double noise_ = 0;
  std::optional<double> floor_;
  SearchLimits limits_;
};

// Whether `count` results with this mean deviation are beyond chance.
bool is_beyond_noise(double mean_deviation, std::size_t count, double noise, double deviations);

}  // namespace muster
