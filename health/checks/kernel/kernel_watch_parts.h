// What the sources of the kernel watch share: its limits, weights of failures, and bounded maps.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "health/checks/kernel/kernel_watch.h"

namespace muster {

inline constexpr SinceBoot one_minute = std::chrono::minutes(1);
// Kinds of events on devices, far more than a node with 16 GPUs and all their Xids has at a time.
inline constexpr std::size_t seen_max = 1024;
inline constexpr std::size_t watched_devices_max = 256;
inline constexpr std::size_t line_shown_max = 512;

inline bool is_near(SinceBoot one, SinceBoot other) {
  return (one > other ? one - other : other - one) <= one_minute;
}

// Heavier failures are told though a milder one was told just before. Of silent events: 0.
int weight_of(const CheckSeverity& severity);
HealthFinding failure_of(std::string_view check, std::string device, CheckSeverity severity,
                         FaultClass fault_class, std::string value,
                         std::vector<std::string> evidence);
std::vector<std::string> evidence_of(std::string_view line, std::uint64_t left_out);
std::string sxid_key(const OpenSxid& sxid);
std::string normal_or_same(std::string_view address);
void append(KernelEvents& all, KernelEvents more);

// Lets the oldest entry go when the map is full.
template <typename Map, typename TimeOf>
void make_room(Map& map, std::size_t limit, TimeOf time_of) {
  if (map.size() < limit) return;
  map.erase(std::ranges::min_element(
      map, {}, [&](const auto& one) -> SinceBoot { return time_of(one.second); }));
}

template <typename Map>
void keep_time(Map& map, const std::string& key, SinceBoot at) {
  if (!map.contains(key)) make_room(map, watched_devices_max, [](SinceBoot time) { return time; });
  map.insert_or_assign(key, at);
}

}  // namespace muster
