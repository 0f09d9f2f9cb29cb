// How steady the rate of a full load is (perf.burn), window by window: one that falls well below
// what it was at the start and stays there was slowed by something. Standard library only: the
// program for GPUs uses it. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster {

// 20 to 60 minutes heat a node through; nobody waits longer than two hours for one.
inline constexpr int burn_minutes_usual = 20;
inline constexpr int burn_minutes_max = 120;

// Windows so far below the start, so many in a row, are no noise. Products of GPUs that are well
// differ by 7 %.
inline constexpr double burn_decline_pct = 10;
inline constexpr std::size_t burn_decline_windows = 3;

// Of a load of this time: a sixtieth, one second at least and ten at most.
std::chrono::milliseconds burn_window(std::chrono::milliseconds time);

// Counts of what was done, as rates: one for each window that is over.
class RateWindows {
 public:
  using Clock = std::chrono::steady_clock;
  RateWindows(std::chrono::milliseconds window, Clock::time_point begun)
      : window_(window), begun_(begun), ends_(begun + window) {}

  // `done` since the start.
  void add(Clock::time_point now, std::uint64_t done);
  const std::vector<double>& per_second() const { return rates_; }

 private:
  std::chrono::milliseconds window_;
  Clock::time_point begun_;  // of the window
  Clock::time_point ends_;   // when it should: whoever adds may be late
  std::uint64_t done_ = 0;   // before it
  std::vector<double> rates_;
};

struct RateDecline {
  std::size_t windows = 0;  // below, with as many beside them as burn_decline_windows says
  std::size_t first = 0;    // the first one of all
  double least_pct = 100;   // the slowest of them, of the rate at the start
};
// The start: what the first windows did after a minute, in which clocks settle. Nothing: there are
// too few windows, or nothing was done in them.
std::optional<RateDecline> rate_decline(std::span<const double> rates,
                                        std::chrono::milliseconds window);
inline constexpr const char* too_few_windows =
    "the load was too short, or did nothing: no decline can be told";

// "82 % of the rate at the start, in 4 windows of 10 s from 720 s on"
std::string decline_text(const RateDecline& decline, std::chrono::milliseconds window);

}  // namespace muster
