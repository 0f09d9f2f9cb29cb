#include "health/model/counter_history.h"

#include <algorithm>
#include <limits>

namespace muster {

namespace {

std::uint64_t register_maximum(int bits) {
  return bits >= 64 ? std::numeric_limits<std::uint64_t>::max()
                    : (std::uint64_t{1} << std::max(bits, 1)) - 1;
}

bool is_in_order(const std::vector<CounterSample>& samples) {
  if (samples.empty() || samples.front().at.count() < 0) return false;
  return std::ranges::adjacent_find(samples, [](const CounterSample& a, const CounterSample& b) {
           return b.at <= a.at || b.value < a.value;
         }) == samples.end();
}

// The newest of the samples at or before `at`, else the oldest.
std::size_t base_at(const std::vector<CounterSample>& samples, std::chrono::milliseconds at) {
  const auto behind = std::ranges::upper_bound(samples, at, {}, &CounterSample::at);
  return behind == samples.begin() ? 0 : static_cast<std::size_t>(behind - samples.begin()) - 1;
}

}  // namespace

bool is_saturated(std::uint64_t value, int bits) {
  constexpr int wider[] = {8, 16, 32, 64};
  if (value == register_maximum(bits)) return true;
  return std::ranges::any_of(
      wider, [&](int width) { return width > bits && value == register_maximum(width); });
}

CounterHistory::CounterHistory(const std::vector<CounterTrack>& state, CounterHistoryLimits limits)
    : limits_(limits) {
  for (const CounterTrack& track : state) {
    if (!is_in_order(track.samples)) continue;
    make_room();
    trim(tracks_[track.key] = track.samples);
  }
}

void CounterHistory::observe(const CounterKey& key, CounterSample sample) {
  if (sample.at.count() < 0) return;
  if (!tracks_.contains(key)) make_room();
  Samples& samples = tracks_[key];
  if (!samples.empty() && (sample.value < samples.back().value || sample.at < samples.back().at))
    samples.clear();
  const std::size_t count = samples.size();
  const bool is_same_time = count > 0 && samples.back().at == sample.at;
  const bool is_dense = count > 1 && sample.at - samples[count - 2].at < limits_.spacing;
  if (is_same_time || is_dense) {
    samples.back() = sample;
  } else {
    samples.push_back(sample);
  }
  trim(samples);
}

GrowthReading CounterHistory::growth(const CounterKey& key, std::chrono::milliseconds window,
                                     int bits) const {
  const auto found = tracks_.find(key);
  if (found == tracks_.end()) return NoBaseline{};
  const Samples& samples = found->second;
  const CounterSample& last = samples.back();
  const CounterSample& first = samples[base_at(samples, last.at - window)];
  const CounterGrowth growth{first.value, last.value, last.at - first.at};
  if (is_saturated(last.value, bits)) return SaturatedCounter{growth};
  if (samples.size() < 2) return NoBaseline{};
  return growth;
}

std::vector<CounterTrack> CounterHistory::state() const {
  std::vector<CounterTrack> tracks;
  tracks.reserve(tracks_.size());
  for (const auto& [key, samples] : tracks_) tracks.push_back({key, samples});
  return tracks;
}

// What was not seen for the longest time goes: a device that left, an earlier boot.
void CounterHistory::make_room() {
  if (tracks_.size() < std::max<std::size_t>(limits_.tracks, 1)) return;
  tracks_.erase(std::ranges::min_element(tracks_, {},
                                         [](const auto& track) { return track.second.back().at; }));
}

// One sample at or before the horizon stays: windows begin there.
void CounterHistory::trim(Samples& samples) const {
  // Two samples of which the second is dense lie less than a spacing apart, three never do.
  const auto spacings = limits_.horizon / std::max(limits_.spacing, std::chrono::milliseconds(1));
  const std::size_t most = 2 * static_cast<std::size_t>(std::max<std::int64_t>(spacings, 1)) + 2;
  std::size_t old = base_at(samples, samples.back().at - limits_.horizon);
  if (samples.size() - old > most) old = samples.size() - most;
  samples.erase(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(old));
}

}  // namespace muster
