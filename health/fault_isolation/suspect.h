// What a result of a pair is called beside all others, what is known of one node from the pairs it
// was in, and what follows from it. Pure.
//
//   open ──a good pair with a known-good partner──► cleared
//     └──two bad or two unknown, beyond noise──► confirmed ──its rails are tested──► named
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "health/fault_isolation/pair.h"

namespace muster {

enum class PairGrade { good, doubtful, bad, unknown };

// What is usual for one kind of test, from all results of it, and what a result is called beside
// that. Robust: the median and the median of the distances from it. One lane for tests over all
// rails, else one for each rail.
class Baseline {
 public:
  Baseline() = default;
  Baseline(std::vector<std::vector<double>> values_by_lane, std::optional<double> floor,
           const SearchLimits& limits);

  PairGrade grade(std::size_t lane, std::optional<double> value) const;
  // From the median, as a fraction of it: -0.1 is 10 % slower.
  double deviation(std::size_t lane, double value) const;
  // One standard deviation of a healthy result, as a fraction: as measured; and as it is assumed
  // before anything is named, since a few results may be alike by chance.
  double noise() const { return noise_; }
  double noise_to_name() const {
    return is_of_few_ ? std::max(noise_, limits_.noise_of_few) : noise_;
  }
  double median(std::size_t lane) const { return lane < medians_.size() ? medians_[lane] : 0; }

 private:
  std::vector<double> medians_;
  double noise_ = 0;
  bool is_of_few_ = true;
  std::optional<double> floor_;
  SearchLimits limits_;
};

// Whether `count` results with this mean deviation are beyond chance.
bool is_beyond_noise(double mean_deviation, std::size_t count, double noise, double deviations);

// One measurement of a node.
struct PairReading {
  NodeIndex partner = 0;
  bool partner_is_good = false;  // known by now
  bool is_explained = false;     // the partner failed with a known-good one: it says nothing here
  bool across = false;           // the partner is below another leaf
  int round = 0;
  PairGrade grade = PairGrade::unknown;
  double deviation = 0;
  std::optional<double> gb_per_s;
  std::size_t weight = 1;  // results that the deviation is the mean of
};

enum class SuspectState { open, cleared, confirmed };

// Bad or silent.
bool fails(const PairReading& reading);
// Together with a node that is known to be good.
bool failed_with_good(const std::vector<PairReading>& readings);

SuspectState state_of(const std::vector<PairReading>& readings, double noise,
                      const SearchLimits& limits);

// Bad twice or more; short of `confirmed` only by the noise.
bool is_bad_twice(const std::vector<PairReading>& readings);
// It was its silence that counted.
bool gave_no_result(const std::vector<PairReading>& readings);
bool had_bad_pair_across(const std::vector<PairReading>& readings);
// Pairs with known-good partners: after two of them nothing more is asked.
std::size_t readings_with_good(const std::vector<PairReading>& readings);

// Of rails that were tested one by one: all, when some are bad and none is good. Else the worst one
// that is bad, others that are bad beyond noise (of eight good rails one would be below the limit
// too often), and silent ones of a node that gave no result before.
std::vector<std::size_t> failing_rails(const std::vector<PairReading>& rails, bool was_silent,
                                       double noise, const SearchLimits& limits);

// All rails as one reading: as bad as the worst one, or as all of them on the average when all
// fail.
PairReading reading_of_rails(const std::vector<PairReading>& rails,
                             const std::vector<std::size_t>& failing);

// "with n5 in round 2: 43.1 GB/s, 10.3 % below the median".
std::string text_of(const PairReading& reading, const std::string& partner);

}  // namespace muster
