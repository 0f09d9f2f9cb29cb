#include "health/active/throttle_watch.h"

#include <algorithm>
#include <string_view>

namespace muster {

namespace {

constexpr std::string_view processors = "/sys/devices/system/cpu";
constexpr std::string_view name_prefix = "cpu";
constexpr std::size_t counters_shown = 6;

bool is_processor(std::string_view name) {
  if (!name.starts_with(name_prefix)) return false;
  name.remove_prefix(name_prefix.size());
  return !name.empty() && name.find_first_not_of("0123456789") == name.npos;
}

}  // namespace

std::vector<std::string> throttle_sources() {
  const std::string each = std::string(processors) + "/cpu[0-9]*/";
  return {each + "thermal_throttle/core_throttle_count",
          each + "thermal_throttle/package_throttle_count", each + "topology/physical_package_id"};
}

// All processors of a package tell of it alike, but not at the very same time: the most counts.
ThrottleWatch::Counts ThrottleWatch::read(const SourceFiles& files) {
  Counts counts;
  for (const std::string& name : files.names_below(processors)) {
    if (!is_processor(name)) continue;
    const std::string at = std::string(processors) + "/" + name;
    const std::string own = at + "/thermal_throttle/";
    for (const char* file : {"core_throttle_count", "package_throttle_count"}) {
      const FileReading& reading = files.reading(own + file);
      if (!reading.ok() && !reading.is_missing) unwatched_ = own + file + ": " + reading.error;
    }
    if (const auto core = files.number(own + "core_throttle_count"))
      counts["cpu " + name.substr(name_prefix.size()) + " core"] = *core;
    const auto package = files.number(own + "package_throttle_count");
    if (!package) continue;
    const auto which = files.number(at + "/topology/physical_package_id").value_or(0);
    std::int64_t& most = counts["package " + std::to_string(which)];
    most = std::max(most, *package);
  }
  return counts;
}

void ThrottleWatch::add(const SourceFiles& files) {
  const Counts now = read(files);
  for (const auto& [counter, count] : last_) {
    const auto found = now.find(counter);
    if (found == now.end()) {
      unwatched_ = "the throttle count of " + counter + " went away";
    } else if (found->second > count) {
      grown_[counter] += found->second - count;
    }
  }
  for (const auto& [counter, count] : now) last_[counter] = count;
}

std::int64_t ThrottleWatch::events() const {
  std::int64_t sum = 0;
  for (const auto& [counter, count] : grown_) sum += count;
  return sum;
}

std::string ThrottleWatch::text() const {
  std::string text;
  std::size_t shown = 0;
  for (const auto& [counter, count] : grown_) {
    if (shown++ == counters_shown)
      return text + " and " + std::to_string(grown_.size() - counters_shown) + " more";
    text += (text.empty() ? "" : ", ") + counter + " " + std::to_string(count) +
            (count == 1 ? " time" : " times");
  }
  return text;
}

}  // namespace muster
