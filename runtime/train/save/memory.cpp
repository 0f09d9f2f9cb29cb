#include "runtime/train/save/memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

namespace muster {

namespace {

constexpr std::uint64_t mib = 1 << 20;

namespace fs = std::filesystem;

// The number after `word` in a file of lines "word number …".
std::optional<std::uint64_t> number_after(const fs::path& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string first; file >> first; file.ignore(1 << 20, '\n')) {
    std::uint64_t number = 0;
    if (first == word && file >> number) return number;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;  // such as "max"
}

// "0::/path" in /proc/self/cgroup.
std::string cgroup_of_self(const fs::path& proc) {
  std::ifstream file(proc / "self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return "";
}

std::optional<std::uint64_t> left_in(const fs::path& group) {
  const auto limit = number_in(group / "memory.max");
  const auto used = number_in(group / "memory.current");
  if (!limit || !used) return std::nullopt;
  const std::uint64_t cache = number_after(group / "memory.stat", "inactive_file").value_or(0) +
                              number_after(group / "memory.stat", "active_file").value_or(0);
  const std::uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

}  // namespace

std::string lack_of_memory(const std::vector<HostMemory>& ranks) {
  std::map<std::string, HostMemory> hosts;
  for (const HostMemory& rank : ranks) {
    HostMemory& sum = hosts[rank.host];
    sum.slot_bytes += rank.slot_bytes;
    if (!rank.available_bytes) continue;
    sum.available_bytes = std::min(sum.available_bytes.value_or(~0ull), *rank.available_bytes);
  }
  for (const auto& [host, sum] : hosts) {
    if (!sum.available_bytes) continue;
    if (sum.slot_bytes <= *sum.available_bytes - *sum.available_bytes / 20) continue;
    return "saving in the background takes " + std::to_string(sum.slot_bytes / mib) + " MiB on " +
           host + ", where " + std::to_string(*sum.available_bytes / mib) + " MiB are free";
  }
  return "";
}

bool saves_in_background(const TrainOptions& options, const std::string& host,
                         const FlatSpace& space, Communicator& ranks, std::string& warning) {
  const auto bytes_of = [&](std::size_t rank) {
    return owned_elements(space, rank, ranks.size()).size() * flat_planes * sizeof(float);
  };
  const bool wanted =
      options.save_mode == SaveMode::background ||
      (options.save_mode == SaveMode::automatic && bytes_of(0) >= background_save_bytes);
  if (!wanted) return false;
  const HostMemory mine{host, bytes_of(ranks.rank()), available_memory_bytes()};
  const std::string lack = lack_of_memory(gather_values(ranks, mine));
  if (lack.empty()) return true;
  warning = lack + ": training blocks on every checkpoint";
  return false;
}

std::optional<std::uint64_t> available_memory_bytes(const std::string& proc,
                                                    const std::string& cgroups) {
  auto least = number_after(fs::path(proc) / "meminfo", "MemAvailable:");
  if (least) *least *= 1024;
  fs::path group = fs::path(cgroups) / cgroup_of_self(proc);
  while (true) {
    const auto left = left_in(group);
    if (left) least = std::min(least.value_or(*left), *left);
    if (group == fs::path(cgroups) || !group.has_relative_path()) return least;
    group = group.parent_path();
  }
}

}  // namespace muster
