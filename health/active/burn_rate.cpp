#include "health/active/burn_rate.h"

#include <algorithm>
#include <cmath>

namespace muster {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds window_least{1000};
constexpr milliseconds window_most{10'000};
constexpr int windows_wanted = 60;

// Clocks and the power that processors may take for a short time settle within a minute.
constexpr milliseconds settling_time{60'000};
constexpr std::size_t start_share = 5;
constexpr std::size_t start_least = 2;
constexpr std::size_t start_most = 12;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string seconds_text(milliseconds time) {
  const auto tenths = std::lround(static_cast<double>(time.count()) / 100);
  const std::string part = tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10);
  return std::to_string(tenths / 10) + part + " s";
}

}  // namespace

milliseconds burn_window(milliseconds time) {
  return std::clamp(time / windows_wanted, window_least, window_most);
}

void RateWindows::add(Clock::time_point now, std::uint64_t done) {
  if (now < ends_ || now <= begun_) return;
  const double seconds = std::chrono::duration<double>(now - begun_).count();
  rates_.push_back(static_cast<double>(done - done_) / seconds);
  begun_ = now;
  done_ = done;
  while (ends_ <= now) ends_ += window_;
}

std::optional<RateDecline> rate_decline(std::span<const double> rates, milliseconds window) {
  const auto settling =
      static_cast<std::size_t>((settling_time + window - milliseconds(1)) / window);
  const std::size_t start = std::clamp(rates.size() / start_share, start_least, start_most);
  const std::size_t judged = settling + start;
  if (rates.size() < judged + burn_decline_windows) return std::nullopt;
  const auto from = rates.begin() + static_cast<std::ptrdiff_t>(settling);
  const double usual = median({from, from + static_cast<std::ptrdiff_t>(start)});
  if (!(usual > 0) || !std::isfinite(usual)) return std::nullopt;
  RateDecline decline;
  const double bound = usual * (1 - burn_decline_pct / 100);
  for (std::size_t at = judged; at < rates.size();) {
    std::size_t end = at;
    while (end < rates.size() && !(rates[end] >= bound)) ++end;
    if (end - at >= burn_decline_windows) {
      if (decline.windows == 0) decline.first = at;
      decline.windows += end - at;
      for (; at < end; ++at)
        decline.least_pct = std::min(decline.least_pct, 100 * rates[at] / usual);
    }
    at = end + 1;
  }
  return decline;
}

std::string decline_text(const RateDecline& decline, milliseconds window) {
  return std::to_string(std::lround(decline.least_pct)) + " % of the rate at the start, in " +
         std::to_string(decline.windows) + " windows of " + seconds_text(window) + " from " +
         seconds_text(window * decline.first) + " on";
}

}  // namespace muster
