#include "health/fabric/counter_memory.h"

#include <algorithm>

#include "health/fabric/judges.h"
#include "health/fabric/readers.h"

namespace muster {

namespace {

using std::chrono::milliseconds;

// Denser ones would be no other baseline, and of a large fabric each is a megabyte.
constexpr std::chrono::minutes spacing{1};

std::string key_of(const FabricEnd& end) {
  return text_of_guid(end.guid) + ":" + std::to_string(end.port);
}

// A file that was tampered with names no port.
std::optional<FabricEnd> end_of(std::string_view key) {
  TextCursor cursor(key);
  const auto guid = cursor.take_guid();
  const auto port = cursor.take(":") ? cursor.take_port() : std::nullopt;
  if (!guid || !port || !cursor.rest().empty()) return std::nullopt;
  return FabricEnd{*guid, *port};
}

FabricErrors errors_of(const FabricCount& count) {
  FabricErrors errors;
  for (const auto& [key, counters] : count.counters) {
    if (const auto end = end_of(key)) errors.counters[*end] = counters;
  }
  errors.thresholds = count.thresholds;
  errors.suppressed = count.suppressed;
  for (const auto& [name, ports] : count.unanswered) {
    for (const int port : ports) errors.unanswered.emplace(name, port);
  }
  errors.has_summary = true;
  return errors;
}

}  // namespace

FabricCount count_of(const FabricErrors& errors, const Fabric& links, milliseconds at) {
  FabricCount count;
  count.at = at;
  for (const auto& [guid, node] : links.nodes) count.nodes.insert(text_of_guid(guid));
  for (const auto& [guid, name] : errors.names) count.nodes.insert(text_of_guid(guid));
  for (const auto& [end, counters] : errors.counters) {
    std::map<std::string, std::uint64_t> judged;
    for (const auto& [name, value] : counters) {
      if (value > 0 && is_judged_fabric_counter(name)) judged.emplace(name, value);
    }
    if (!judged.empty()) count.counters.emplace(key_of(end), std::move(judged));
  }
  for (const auto& [name, value] : errors.thresholds) {
    if (is_judged_fabric_counter(name)) count.thresholds.emplace(name, value);
  }
  count.suppressed = errors.suppressed;
  for (const auto& [name, port] : errors.unanswered) count.unanswered[name].push_back(port);
  return count;
}

std::optional<FabricBaseline> baseline_of(const FabricCounts& counts, const FabricErrors& now,
                                          milliseconds at) {
  const FabricCount* best = nullptr;
  for (const FabricCount& count : counts) {
    const bool is_usable = count.at < at && at - count.at <= fabric_counts_kept;
    if (is_usable && (best == nullptr || at - count.at >= fabric_growth_window)) best = &count;
  }
  if (best == nullptr) return std::nullopt;
  FabricBaseline baseline{errors_of(*best), at - best->at};
  for (const auto& [end, counters] : now.counters) {
    if (!best->nodes.contains(text_of_guid(end.guid))) baseline.errors.counters[end] = counters;
  }
  return baseline;
}

void keep_count(FabricCounts& counts, FabricCount count) {
  const milliseconds now = count.at;
  // Of a clock that was set back since.
  std::erase_if(counts, [&](const FabricCount& one) {
    return one.at >= now || now - one.at > fabric_counts_kept;
  });
  const auto is_baseline = [&](const FabricCount& one) {
    return now - one.at >= fabric_growth_window;
  };
  // Of those that are old enough only the newest one will ever be asked for.
  while (counts.size() > 1 && is_baseline(counts[1])) counts.erase(counts.begin());
  if (counts.size() > 1 && now - counts[counts.size() - 2].at < spacing) counts.pop_back();
  counts.push_back(std::move(count));
}

}  // namespace muster
