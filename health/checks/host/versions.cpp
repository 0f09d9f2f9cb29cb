#include "health/checks/host/versions.h"

#include <array>

#include "health/model/judged_check.h"

namespace muster {

namespace {

// A round trip within a data centre takes a few ms; by then the node or its network is in trouble.
constexpr double round_trip_ms_usual = 1000;

constexpr std::array<std::string_view, 3> library_folders{"/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                                          "/usr/lib/aarch64-linux-gnu"};

// "libcuda.so.535.104.05", where "libcuda.so.1" leads, of which the end is told.
std::optional<std::string> library_version(const SourceFiles& files, std::string_view name,
                                           std::string_view link) {
  for (const std::string_view folder : library_folders) {
    const auto target = files.text(std::string(folder) + "/" + std::string(link) + "@");
    if (!target) continue;
    const std::string_view file = target->substr(target->rfind('/') + 1);
    const std::string prefix = std::string(name) + ".so.";
    if (file.starts_with(prefix)) return std::string(file.substr(prefix.size()));
  }
  return std::nullopt;
}

void add_text(Facts& facts, const std::string& fact, const SourceFiles& files,
              std::string_view path) {
  const auto text = files.text(path);
  if (text && !text->empty()) facts[fact] = *text;
}

}  // namespace

Facts versions_of(const SourceFiles& files, const std::string& binary_hash) {
  Facts facts;
  add_text(facts, "kernel", files, "/proc/sys/kernel/osrelease");
  add_text(facts, "ofed", files, "/sys/module/mlx5_core/version");
  if (const auto cuda = library_version(files, "libcuda", "libcuda.so.1")) facts["libcuda"] = *cuda;
  if (const auto nccl = library_version(files, "libnccl", "libnccl.so.2")) facts["nccl"] = *nccl;
  if (!binary_hash.empty()) facts["muster"] = binary_hash;
  return facts;
}

Facts mtus_of(const SourceFiles& files) {
  Facts facts;
  constexpr std::string_view interfaces = "/sys/class/net";
  for (const std::string& name : files.names_below(interfaces)) {
    const std::string folder = std::string(interfaces) + "/" + name;
    if (files.text(folder + "/operstate") == "up")
      add_text(facts, "mtu " + name, files, folder + "/mtu");
  }
  return facts;
}

std::optional<HealthFinding> judge_net(const NetFacts& facts, const HealthProfile& profile) {
  JudgedCheck judged("host.net");
  if (facts.round_trip) {
    const double limit = limit_of(profile, "host.net", "round_trip_ms", round_trip_ms_usual);
    judged.require(static_cast<double>(facts.round_trip->count()) <= limit,
                   "round trip " + std::to_string(facts.round_trip->count()) + " ms",
                   "<= " + std::to_string(static_cast<std::int64_t>(limit)) + " ms");
  }
  for (const std::string& peer : facts.unknown_peers)
    judged.fail(peer + " not resolved", "resolved");
  if (facts.is_master_port_free)
    judged.require(*facts.is_master_port_free,
                   *facts.is_master_port_free ? "master port free" : "master port in use",
                   "master port free");
  return judged.finding();
}

}  // namespace muster
