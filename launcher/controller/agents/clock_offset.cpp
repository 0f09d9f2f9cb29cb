#include "launcher/controller/agents/clock_offset.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "health/checks/host/facts.h"

namespace muster {

namespace {

// An older exchange is wider by 6 ms and more, and no longer adds anything.
constexpr std::int64_t memory_us = 60'000'000;
// Crystal oscillators are specified to 20 to 50 ppm each, ageing and temperature included.
constexpr std::int64_t drift_ppm = 100;

std::int64_t drift_us(std::int64_t from_us, std::int64_t to_us) {
  return std::abs(to_us - from_us) / 1'000'000 * drift_ppm +
         (std::abs(to_us - from_us) % 1'000'000 * drift_ppm) / 1'000'000 + 1;
}

}  // namespace

// An exchange that contradicts the others tells of a clock that jumped (a virtual machine that was
// moved or suspended): only what came after the jump counts.
void ClockOffset::add(const ClockStamps& stamps, std::int64_t heard_us) {
  const Interval offset{stamps.replied_us - heard_us, stamps.received_us - stamps.sent_us};
  const Bound bound{offset, stamps.replied_us, heard_us};
  if (bound.offset.least > bound.offset.most) return;  // an answer before the question
  if (const auto known = at(bound.node_us)) {
    const bool agrees =
        known->least <= bound.offset.most && bound.offset.least <= known->most;
    if (!agrees) {
      bounds_.clear();
      jumped_before_us_ = bound.node_us;
    }
  }
  bounds_.push_back(bound);
  while (bounds_.front().heard_us + memory_us < bound.heard_us) bounds_.pop_front();
}

std::optional<Interval> ClockOffset::at(std::int64_t node_us) const {
  std::optional<Interval> all;
  for (const Bound& bound : bounds_) {
    const std::int64_t drift = drift_us(bound.node_us, node_us);
    const Interval widened{bound.offset.least - drift, bound.offset.most + drift};
    if (!all) all = widened;
    all->least = std::max(all->least, widened.least);
    all->most = std::min(all->most, widened.most);
  }
  return all;
}

std::optional<Interval> ClockOffset::to_controller(Interval node_span) const {
  if (jumped_before_us_ && node_span.least < *jumped_before_us_) return std::nullopt;
  const auto early = at(node_span.least);
  const auto late = at(node_span.most);
  if (!early || !late) return std::nullopt;
  return Interval{node_span.least - early->most, node_span.most - late->least};
}

std::optional<std::int64_t> ClockOffset::last_answer_us() const {
  if (bounds_.empty()) return std::nullopt;
  const std::int64_t answered = bounds_.back().node_us;
  return answered - at(answered)->most;
}

std::optional<ClockInterval> on_this_host(const std::optional<Interval>& interval_us) {
  static const std::string boot = read_boot_id();
  if (!interval_us) return std::nullopt;
  return ClockInterval{interval_us->least, interval_us->most, boot};
}

}  // namespace muster
