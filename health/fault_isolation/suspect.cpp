#include "health/fault_isolation/suspect.h"

#include <algorithm>
#include <cstdio>

namespace muster {

namespace {

std::size_t count_of(const std::vector<PairReading>& readings, PairGrade grade) {
  return static_cast<std::size_t>(std::count_if(
      readings.begin(), readings.end(),
      [&](const PairReading& reading) { return reading.grade == grade && !reading.is_explained; }));
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

void take_mean(PairReading& reading, const std::vector<RailReading>& rails) {
  double deviations = 0;
  double gb_per_s = 0;
  reading.weight = 0;
  for (const RailReading& rail : rails) {
    if (!rail.gb_per_s) continue;
    deviations += rail.deviation;
    gb_per_s += *rail.gb_per_s;
    ++reading.weight;
  }
  reading.deviation = deviations / static_cast<double>(reading.weight);
  reading.gb_per_s = gb_per_s / static_cast<double>(reading.weight);
}

}  // namespace

bool fails(const PairReading& reading) {
  return reading.grade == PairGrade::bad || reading.grade == PairGrade::unknown;
}

bool failed_with_good(const std::vector<PairReading>& readings) {
  return std::any_of(readings.begin(), readings.end(), [](const PairReading& reading) {
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
  return std::any_of(readings.begin(), readings.end(),
                     [](const PairReading& reading) { return fails(reading) && reading.across; });
}

std::size_t readings_with_good(const std::vector<PairReading>& readings) {
  return static_cast<std::size_t>(
      std::count_if(readings.begin(), readings.end(),
                    [](const PairReading& reading) { return reading.partner_is_good; }));
}

std::vector<std::size_t> failing_rails(const std::vector<RailReading>& rails, bool was_silent,
                                       double noise, const SearchLimits& limits) {
  std::vector<std::size_t> failing;
  double worst = 0;
  bool is_any_good = false;
  bool is_silent = false;
  for (const RailReading& rail : rails) {
    if (rail.grade == PairGrade::bad) worst = std::min(worst, rail.deviation);
    is_any_good |= rail.grade == PairGrade::good;
    is_silent |= was_silent && rail.grade == PairGrade::unknown;
  }
  const double beyond =
      std::max(limits.bad_below_median, limits.deviations_of_a_second_rail * noise);
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const RailReading& rail = rails[i];
    const bool bad = (worst < 0 && !is_any_good) ||
                     (rail.grade == PairGrade::bad &&
                      ((rail.deviation <= worst && !is_silent) || rail.deviation <= -beyond));
    const bool silent = rail.grade == PairGrade::unknown;
    if (silent ? was_silent : bad) failing.push_back(i);
  }
  return failing;
}

PairReading reading_of_rails(const std::vector<RailReading>& rails,
                             const std::vector<std::size_t>& failing) {
  PairReading reading;
  reading.grade = PairGrade::doubtful;  // good rails do not clear what lies behind them
  bool has_bad = false;
  for (const std::size_t i : failing) has_bad |= rails[i].grade == PairGrade::bad;
  if (!failing.empty()) reading.grade = has_bad ? PairGrade::bad : PairGrade::unknown;
  for (const RailReading& rail : rails) {
    if (rail.grade == PairGrade::unknown || rail.deviation > reading.deviation) continue;
    reading.deviation = rail.deviation;
    reading.gb_per_s = rail.gb_per_s;
  }
  if (has_bad && failing.size() == rails.size()) take_mean(reading, rails);
  return reading;
}

std::string text_of(const PairReading& reading, const std::string& partner) {
  char text[96];
  if (!reading.gb_per_s) {
    std::snprintf(text, sizeof text, " in round %d: no result", reading.round);
  } else {
    std::snprintf(text, sizeof text, " in round %d: %.1f GB/s, %.1f %% %s the median",
                  reading.round, *reading.gb_per_s,
                  100 * (reading.deviation < 0 ? -reading.deviation : reading.deviation),
                  reading.deviation < 0 ? "below" : "above");
  }
  return "with " + partner + text;
}

}  // namespace muster
