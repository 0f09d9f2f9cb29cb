#include "runtime/train/save/memory.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "runtime/train/save/host_memory.h"

namespace muster {
namespace {

constexpr std::uint64_t mib = 1 << 20;

std::string format_memory(const HostMemory& memory) {
  const std::string available =
      memory.available_bytes ? std::to_string(*memory.available_bytes) : "unknown";
  return std::to_string(memory.slot_bytes) + " " + available + " " + memory.host;
}

HostMemory parse_memory(const std::string& text) {
  HostMemory memory;
  std::string available;
  std::istringstream words(text);
  words >> memory.slot_bytes >> available >> memory.host;
  if (available != "unknown") memory.available_bytes = std::stoull(available);
  return memory;
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
  std::vector<HostMemory> all;
  for (const std::string& text : ranks.gather_texts(format_memory(mine))) {
    all.push_back(parse_memory(text));
  }
  const std::string lack = lack_of_memory(all);
  if (lack.empty()) return true;
  warning = lack + ": training waits for every checkpoint";
  return false;
}

}  // namespace muster
