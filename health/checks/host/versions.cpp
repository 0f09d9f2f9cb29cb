#include <array>

#include "health/checks/host/host_checks.h"
#include "health/model/check_words.h"
#include "health/model/judged_check.h"

namespace muster {

namespace {

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

Facts versions_of(const SourceFiles& files) {
  Facts facts;
  add_text(facts, "kernel", files, "/proc/sys/kernel/osrelease");
  add_text(facts, "ofed", files, "/sys/module/mlx5_core/version");
  if (const auto cuda = library_version(files, "libcuda", "libcuda.so.1")) facts["libcuda"] = *cuda;
  if (const auto nccl = library_version(files, "libnccl", "libnccl.so.2")) facts["nccl"] = *nccl;
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

namespace {

void judge_net(JudgedCheck& judged, const CheckInput& input) {
  const NetFacts& facts = input.host->net;
  if (facts.round_trip) {
    const double limit = input.limit("round_trip_ms");
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
}

}  // namespace

std::span<const CheckSpec> version_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    // Nodes are compared with each other (health/learn/versions.h).
    {.id = "host.versions", .source = "kernel, OFED, NCCL, libcuda, binary hash",
     .says = "those of the majority", .severity = drain, .fault = setup, .phases = when("P"),
     .cost = 2ms, .is_often_shared = true, .group = host,
     .reads = {"/proc/sys/kernel/osrelease", "/sys/module/mlx5_core/version",
               "/usr/lib/x86_64-linux-gnu/libcuda.so.1@", "/usr/lib/x86_64-linux-gnu/libnccl.so.2@",
               "/usr/lib64/libcuda.so.1@", "/usr/lib64/libnccl.so.2@",
               "/usr/lib/aarch64-linux-gnu/libcuda.so.1@",
               "/usr/lib/aarch64-linux-gnu/libnccl.so.2@"}},
    // Within a data centre it takes a few ms; by then the node or its network is in trouble.
    {.id = "host.net", .source = "/sys/class/net/*/mtu, peers' names, the master port",
     .says = "peers are known by name, the port is free, the MTU is the majority's",
     .severity = drain, .fault = setup, .phases = when("P"), .cost = 5ms,
     .group = host, .reads = {"/sys/class/net/*/operstate", "/sys/class/net/*/mtu"},
     .limits = {{"round_trip_ms", "ms", 1000}}, .judge = in_one_finding<judge_net>},
  };
  // clang-format on
  return all;
}

}  // namespace muster
