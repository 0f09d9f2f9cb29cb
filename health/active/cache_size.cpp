#include "health/active/cache_size.h"

#include <charconv>
#include <map>
#include <string_view>

namespace muster {

namespace {

constexpr std::string_view processors = "/sys/devices/system/cpu";

// "32768K", "16M"
std::optional<std::uint64_t> size_in(std::string_view text) {
  std::uint64_t value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(at - text.data()));
  if (error != std::errc() || value == 0 || value > (1ull << 40)) return std::nullopt;
  if (unit == "K") return value << 10;
  if (unit == "M") return value << 20;
  return unit.empty() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::vector<std::string> cache_sources() {
  const std::string index = std::string(processors) + "/cpu[0-9]*/cache/index[0-9]*/";
  return {index + "level", index + "size", index + "shared_cpu_list"};
}

std::optional<std::uint64_t> last_cache_bytes(const SourceFiles& files) {
  std::map<std::int64_t, std::map<std::string, std::uint64_t>> by_level;
  for (const std::string& processor : files.names_below(processors)) {
    const std::string caches = std::string(processors) + "/" + processor + "/cache";
    for (const std::string& name : files.names_below(caches)) {
      const std::string cache = caches + "/" + name;
      const auto level = files.number(cache + "/level");
      const auto size = files.text(cache + "/size");
      const auto shared = files.text(cache + "/shared_cpu_list");
      const auto bytes = size ? size_in(*size) : std::nullopt;
      if (level && bytes && shared) by_level[*level][std::string(*shared)] = *bytes;
    }
  }
  if (by_level.empty()) return std::nullopt;
  std::uint64_t sum = 0;
  for (const auto& [shared, bytes] : by_level.rbegin()->second) sum += bytes;
  return sum;
}

}  // namespace muster
