#include "health/fault_isolation/suspect.h"

#include <cmath>
#include <cstdio>

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

std::size_t count_of(const std::vector<PairReading>& readings, PairGrade grade) {
  return static_cast<std::size_t>(std::ranges::count_if(readings, [&](const PairReading& reading) {
    return reading.grade == grade && !reading.is_explained;
  }));
}

// All that was measured counts, also what was not bad: picking the bad ones would see faults in
// noise.
bool is_slow_beyond_noise(const std::vector<PairReading>& readings, double noise,
                          const SearchLimits& limits) {
  double sum = 0;
  std::size_t known = 0;
  for (const PairReading& reading : readings) {
    if (reading.grade == PairGrade::unknown || reading.is_explained) continue;
    sum += reading.deviation * static_cast<double>(reading.weight);
    known += reading.weight;
  }
  return known > 0 &&
         is_beyond_noise(sum / static_cast<double>(known), known, noise, limits.deviations_to_name);
}

void take_mean(PairReading& reading, const std::vector<PairReading>& rails) {
  double deviations = 0;
  double gb_per_s = 0;
  reading.weight = 0;
  for (const PairReading& rail : rails) {
    if (!rail.gb_per_s) continue;
    deviations += rail.deviation;
    gb_per_s += *rail.gb_per_s;
    ++reading.weight;
  }
  reading.deviation = deviations / static_cast<double>(reading.weight);
  reading.gb_per_s = gb_per_s / static_cast<double>(reading.weight);
}

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
  is_of_few_ = distances.size() < limits_.results_for_noise;
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

bool fails(const PairReading& reading) {
  return reading.grade == PairGrade::bad || reading.grade == PairGrade::unknown;
}

bool failed_with_good(const std::vector<PairReading>& readings) {
  return std::ranges::any_of(readings, [](const PairReading& reading) {
    return fails(reading) && reading.partner_is_good;
  });
}

SuspectState state_of(const std::vector<PairReading>& readings, double noise,
                      const SearchLimits& limits) {
  if (readings.empty()) return SuspectState::open;
  if (readings.back().grade == PairGrade::good) return SuspectState::cleared;
  const std::size_t bad = count_of(readings, PairGrade::bad);
  const std::size_t unknown = count_of(readings, PairGrade::unknown);
  if (failed_with_good(readings) &&
      (unknown >= 2 || (bad >= 2 && is_slow_beyond_noise(readings, noise, limits)))) {
    return SuspectState::confirmed;
  }
  if (bad + unknown == 0 && readings_with_good(readings) > 0) return SuspectState::cleared;
  return SuspectState::open;
}

bool is_bad_twice(const std::vector<PairReading>& readings) {
  return count_of(readings, PairGrade::bad) + count_of(readings, PairGrade::unknown) >= 2 &&
         failed_with_good(readings);
}

bool gave_no_result(const std::vector<PairReading>& readings) {
  return count_of(readings, PairGrade::unknown) >= 2;
}

bool had_bad_pair_across(const std::vector<PairReading>& readings) {
  return std::ranges::any_of(
      readings, [](const PairReading& reading) { return fails(reading) && reading.across; });
}

std::size_t readings_with_good(const std::vector<PairReading>& readings) {
  return static_cast<std::size_t>(std::ranges::count_if(readings, &PairReading::partner_is_good));
}

std::vector<std::size_t> failing_rails(const std::vector<PairReading>& rails, bool was_silent,
                                       double noise, const SearchLimits& limits) {
  std::vector<std::size_t> failing;
  double worst = 0;
  bool is_any_good = false;
  bool is_silent = false;
  for (const PairReading& rail : rails) {
    if (rail.grade == PairGrade::bad) worst = std::min(worst, rail.deviation);
    is_any_good |= rail.grade == PairGrade::good;
    is_silent |= was_silent && rail.grade == PairGrade::unknown;
  }
  const double beyond =
      std::max(limits.bad_below_median, limits.deviations_of_a_second_rail * noise);
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const PairReading& rail = rails[i];
    const bool bad = (worst < 0 && !is_any_good) ||
                     (rail.grade == PairGrade::bad &&
                      ((rail.deviation <= worst && !is_silent) || rail.deviation <= -beyond));
    const bool silent = rail.grade == PairGrade::unknown;
    if (silent ? was_silent : bad) failing.push_back(i);
  }
  return failing;
}

PairReading reading_of_rails(const std::vector<PairReading>& rails,
                             const std::vector<std::size_t>& failing) {
  PairReading reading;
  reading.grade = PairGrade::doubtful;  // good rails do not clear what lies behind them
  bool has_bad = false;
  for (const std::size_t i : failing) has_bad |= rails[i].grade == PairGrade::bad;
  if (!failing.empty()) reading.grade = has_bad ? PairGrade::bad : PairGrade::unknown;
  for (const PairReading& rail : rails) {
    if (rail.grade == PairGrade::unknown || rail.deviation > reading.deviation) continue;
    reading.deviation = rail.deviation;
    reading.gb_per_s = rail.gb_per_s;
  }
  if (has_bad && failing.size() == rails.size()) take_mean(reading, rails);
  return reading;
}

std::string text_of(const PairReading& reading, const std::string& partner) {
  const std::string begin = "with " + partner + " in round " + std::to_string(reading.round) + ": ";
  if (!reading.gb_per_s) return begin + "no result";
  char text[96];
  std::snprintf(text, sizeof text, "%.1f GB/s, %.1f %% %s the median", *reading.gb_per_s,
                100 * std::abs(reading.deviation), reading.deviation < 0 ? "below" : "above");
  return begin + text;
}

}  // namespace muster
