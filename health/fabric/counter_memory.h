// What the fabric's error counters said at the latest runs, to judge their growth from. Plain data,
// saved with what is remembered; the functions are pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "health/fabric/readers.h"
#include "scheduler/text/fields.h"

namespace muster {

// Growth is judged over this time or more, when runs come more often.
inline constexpr std::chrono::minutes fabric_growth_window{5};
// A count of longer ago is of another time: an error an hour is no news after a week.
inline constexpr std::chrono::hours fabric_counts_kept{24};

struct FabricCount {
  std::chrono::milliseconds at{0};  // since 1970
  // By port, "0x0000000000200001:7": those above 0 of the counters that are judged.
  std::map<std::string, std::map<std::string, std::uint64_t>> counters;
  std::set<std::string> nodes;  // that were there, by GUID
  std::map<std::string, std::uint64_t> thresholds;
  std::set<std::string> suppressed;
  std::map<std::string, std::vector<int>> unanswered;  // ports by the node's name

  MUSTER_FIELDS(at, counters, nodes, thresholds, suppressed, unanswered)
};

// The oldest first.
using FabricCounts = std::vector<FabricCount>;

FabricCount count_of(const FabricErrors& errors, const Fabric& links, std::chrono::milliseconds at);

struct FabricBaseline {
  FabricErrors errors;
  std::chrono::milliseconds age{0};
};
// The newest count that is a window old, else the oldest. A port of a node that was not there then
// has grown by nothing since `now`. Nothing: there is no earlier count.
std::optional<FabricBaseline> baseline_of(const FabricCounts& counts, const FabricErrors& now,
                                          std::chrono::milliseconds at);

// Keeps what the next runs are judged from, a count a minute at most.
void keep_count(FabricCounts& counts, FabricCount count);

}  // namespace muster
