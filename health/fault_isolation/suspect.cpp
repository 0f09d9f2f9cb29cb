#include "health/fault_isolation/suspect.h"

#include <algorithm>
#include <cstdio>

namespace muster {

namespace {

std::size_t count_of(const std::vector<Look>& looks, PairReading reading) {
  return static_cast<std::size_t>(std::count_if(looks.begin(), looks.end(), [&](const Look& look) {
    return look.reading == reading && !look.is_explained;
  }));
}

bool fails(const Look& look) {
  return look.reading == PairReading::bad || look.reading == PairReading::unknown;
}

// All that was measured counts, also what was not bad: picking the bad ones would see faults in
// noise.
bool is_slow_beyond_noise(const std::vector<Look>& looks, double noise,
                          const LocaliseLimits& limits) {
  double sum = 0;
  std::size_t known = 0;
  for (const Look& look : looks) {
    if (look.reading == PairReading::unknown || look.is_explained) continue;
    sum += look.deviation * static_cast<double>(look.weight);
    known += look.weight;
  }
  return known > 0 &&
         is_beyond_noise(sum / static_cast<double>(known), known, noise, limits.deviations_to_name);
}

}  // namespace

bool failed_with_good(const std::vector<Look>& looks) {
  return std::any_of(looks.begin(), looks.end(),
                     [](const Look& look) { return fails(look) && look.partner_is_good; });
}

SuspectState state_of(const std::vector<Look>& looks, double noise, const LocaliseLimits& limits) {
  if (looks.empty()) return SuspectState::open;
  if (looks.back().reading == PairReading::good) return SuspectState::cleared;
  const std::size_t bad = count_of(looks, PairReading::bad);
  const std::size_t unknown = count_of(looks, PairReading::unknown);
  if (failed_with_good(looks) &&
      (unknown >= 2 || (bad >= 2 && is_slow_beyond_noise(looks, noise, limits)))) {
    return SuspectState::confirmed;
  }
  if (bad + unknown == 0 && looks_with_good(looks) > 0) return SuspectState::cleared;
  return SuspectState::open;
}

bool is_bad_twice(const std::vector<Look>& looks) {
  return count_of(looks, PairReading::bad) + count_of(looks, PairReading::unknown) >= 2 &&
         failed_with_good(looks);
}

bool gave_no_result(const std::vector<Look>& looks) {
  return count_of(looks, PairReading::unknown) >= 2;
}

bool had_bad_pair_across(const std::vector<Look>& looks) {
  return std::any_of(looks.begin(), looks.end(),
                     [](const Look& look) { return fails(look) && look.across; });
}

std::size_t looks_with_good(const std::vector<Look>& looks) {
  return static_cast<std::size_t>(std::count_if(
      looks.begin(), looks.end(), [](const Look& look) { return look.partner_is_good; }));
}

std::vector<std::size_t> failing_rails(const std::vector<RailReading>& rails, bool was_silent,
                                       double noise, const LocaliseLimits& limits) {
  std::vector<std::size_t> failing;
  double worst = 0;
  bool is_any_good = false;
  bool is_silent = false;
  for (const RailReading& rail : rails) {
    if (rail.reading == PairReading::bad) worst = std::min(worst, rail.deviation);
    is_any_good |= rail.reading == PairReading::good;
    is_silent |= was_silent && rail.reading == PairReading::unknown;
  }
  const double beyond =
      std::max(limits.bad_below_median, limits.deviations_of_a_second_rail * noise);
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const RailReading& rail = rails[i];
    const bool bad = (worst < 0 && !is_any_good) ||
                     (rail.reading == PairReading::bad &&
                      ((rail.deviation <= worst && !is_silent) || rail.deviation <= -beyond));
    const bool silent = rail.reading == PairReading::unknown;
    if (silent ? was_silent : bad) failing.push_back(i);
  }
  return failing;
}

namespace {

void take_mean(Look& look, const std::vector<RailReading>& rails) {
  double deviations = 0;
  double gb_per_s = 0;
  look.weight = 0;
  for (const RailReading& rail : rails) {
    if (!rail.gb_per_s) continue;
    deviations += rail.deviation;
    gb_per_s += *rail.gb_per_s;
    ++look.weight;
  }
  look.deviation = deviations / static_cast<double>(look.weight);
  look.gb_per_s = gb_per_s / static_cast<double>(look.weight);
}

}  // namespace

Look look_at_rails(const std::vector<RailReading>& rails, const std::vector<std::size_t>& failing) {
  Look look;
  look.reading = PairReading::doubtful;  // good rails do not clear what lies behind them
  bool has_bad = false;
  for (const std::size_t i : failing) has_bad |= rails[i].reading == PairReading::bad;
  if (!failing.empty()) look.reading = has_bad ? PairReading::bad : PairReading::unknown;
  for (const RailReading& rail : rails) {
    if (rail.reading == PairReading::unknown || rail.deviation > look.deviation) continue;
    look.deviation = rail.deviation;
    look.gb_per_s = rail.gb_per_s;
  }
  if (has_bad && failing.size() == rails.size()) take_mean(look, rails);
  return look;
}

std::string text_of(const Look& look, const std::string& partner) {
  char text[96];
  if (!look.gb_per_s) {
    std::snprintf(text, sizeof text, " in round %d: no result", look.round);
  } else {
    std::snprintf(text, sizeof text, " in round %d: %.1f GB/s, %.1f %% %s the median", look.round,
                  *look.gb_per_s, 100 * (look.deviation < 0 ? -look.deviation : look.deviation),
                  look.deviation < 0 ? "below" : "above");
  }
  return "with " + partner + text;
}

}  // namespace muster
