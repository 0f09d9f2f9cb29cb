#include "health/learn/facts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "health/checks/gpu/sources.h"
#include "health/checks/host/facts.h"
#include "health/checks/host/host_checks.h"
#include "health/checks/host/mounts.h"
#include "health/checks/host/processors.h"
#include "health/checks/infiniband/port.h"
#include "health/checks/infiniband/port_text.h"
#include "health/checks/infiniband/sources.h"
#include "health/read/probe_calls.h"

namespace muster {

namespace {

constexpr std::int64_t nofile_unlimited = 1 << 20;
constexpr int links_most = 72;

// File systems that other hosts serve: without them a job finds no data.
constexpr std::array<std::string_view, 11> shared_types{
    "nfs",  "nfs4",   "lustre", "beegfs",    "gpfs",          "ceph",
    "cifs", "wekafs", "panfs",  "glusterfs", "fuse.glusterfs"};

std::string why_missing(const FileReading& reading) {
  return reading.ok() ? "it says nothing that is known" : reading.error;
}

class GpuFacts {
 public:
  GpuFacts(const GpuReadings& gpus, LearnedNode& node) : gpus_(gpus), node_(node) {}

  void learn() {
    LearnedFacts& facts = node_.facts;
    facts.gpu_count = gpus_.count();
    if (gpus_.count() == 0) return;
    facts.gpu_name = same_text("name", "match.gpu_name");
    learn_links();
    facts.pcie_gen = same_number("pcie.max_gen", "gpu.pcie_gen");
    facts.pcie_width = same_number("pcie.width", "gpu.pcie_width");
    facts.ecc = same_flag("ecc.current", "gpu.ecc");
    facts.mig = same_flag("mig.current", "gpu.mig");
    facts.persistence = same_flag("persistence", "gpu.persistence");
  }

 private:
  static std::string device(int gpu) { return "gpu" + std::to_string(gpu); }

  std::string why(const std::string& key) const {
    const GpuReading* reading = gpus_.find(key);
    if (reading == nullptr) return "it was not asked";
    return reading->rc != 0 ? nvml_code_text(reading->rc) : "it says '" + reading->value + "'";
  }

  std::optional<std::string> same_text(const std::string& name, const std::string& fact) {
    std::optional<std::string> first;
    for (int gpu = 0; gpu < gpus_.count(); ++gpu) {
      const std::string key = device(gpu) + "." + name;
      const auto text = gpus_.text(key);
      if (!text) return leave_out(fact, device(gpu) + ": " + why(key));
      if (first && *first != *text) {
        return leave_out(fact,
                         device(gpu) + " says " + std::string(*text) + ", gpu0 says " + *first);
      }
      first = *text;
    }
    return first;
  }

  std::optional<int> same_number(const std::string& name, const std::string& fact) {
    const auto text = same_text(name, fact);
    const auto number = text ? gpus_.number(device(0) + "." + name) : std::nullopt;
    if (text && (!number || *number < 0 || *number > 1'000'000)) {
      leave_out(fact, "gpu0: " + why(device(0) + "." + name));
      return std::nullopt;
    }
    return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
  }

  // A GPU that has no such mode is as one where it is off; the checks leave it out.
  std::optional<bool> same_flag(const std::string& name, const std::string& fact) {
    constexpr int not_supported = 3;
    const GpuReading* first = gpus_.find(device(0) + "." + name);
    if (first != nullptr && first->rc == not_supported) return std::nullopt;
    const auto number = same_number(name, fact);
    return number ? std::optional(*number != 0) : std::nullopt;
  }

  std::optional<std::string> leave_out(const std::string& fact, const std::string& reason) {
    node_.left_out.push_back(fact + ": " + reason);
    return std::nullopt;
  }

  int links_up(int gpu) const {
    int up = 0;
    for (int link = 0; link < links_most; ++link) {
      up += gpus_.number(device(gpu) + ".link." + std::to_string(link) + ".state") == 1 ? 1 : 0;
    }
    return up;
  }

  void learn_links() {
    std::optional<int> fewest;
    for (int gpu = 0; gpu < gpus_.count(); ++gpu) {
      const int up = links_up(gpu);
      const auto told = gpus_.number(device(gpu) + ".field.91");
      if (told && *told > up) {
        leave_out("gpu.nvlinks", device(gpu) + " has " + std::to_string(up) + " of " +
                                     std::to_string(*told) + " links up: is this node healthy?");
      }
      if (fewest && *fewest != up) {
        leave_out("gpu.nvlinks", device(gpu) + " has " + std::to_string(up) + " links up, others " +
                                     std::to_string(*fewest) + ": the fewest count");
      }
      fewest = std::min(fewest.value_or(up), up);
    }
    node_.facts.nvlinks = fewest;
    if (fewest.value_or(0) > 0) learn_link_speed(*fewest);
  }

  void learn_link_speed(int links) {
    std::optional<std::int64_t> slowest;
    for (int gpu = 0; gpu < gpus_.count(); ++gpu) {
      for (int link = 0; link < links; ++link) {
        auto speed = gpus_.number(device(gpu) + ".field.164." + std::to_string(link));
        if (!speed) speed = gpus_.number(device(gpu) + ".field.90");
        if (speed && *speed > 0) slowest = std::min(slowest.value_or(*speed), *speed);
      }
    }
    if (!slowest || *slowest > 10'000'000) {
      leave_out("gpu.nvlink_mb_per_s", "no GPU tells the speed of its links");
    } else {
      node_.facts.nvlink_mb_per_s = static_cast<int>(*slowest);
    }
  }

  const GpuReadings& gpus_;
  LearnedNode& node_;
};

void learn_gpus(const NodeReadings& readings, LearnedNode& node) {
  const auto on_pci = static_cast<int>(gpus_on_pci(readings.files).size());
  const bool has_answer =
      readings.gpus && readings.gpus->is_complete() && readings.gpus->text("count").has_value();
  if (!has_answer && on_pci == 0) {
    node.facts.gpu_count = 0;
    return;
  }
  if (!has_answer) {
    const GpuReading* init = readings.gpus ? readings.gpus->find("init") : nullptr;
    const std::string why = !readings.gpus ? "it was not asked"
                            : !readings.gpus->calling().empty() && !readings.gpus->is_complete()
                                ? "no answer from " + readings.gpus->calling()
                            : init != nullptr ? nvml_code_text(init->rc)
                                              : "it says nothing";
    node.left_out.push_back("gpu: " + std::to_string(on_pci) +
                            " on the PCI bus, but of the driver's library: " + why);
    return;
  }
  GpuFacts(*readings.gpus, node).learn();
  if (node.facts.gpu_count != on_pci && on_pci > 0) {
    node.left_out.push_back("gpu.count: the driver counts " +
                            std::to_string(*node.facts.gpu_count) + " GPUs, the PCI bus " +
                            std::to_string(on_pci) + ": is this node healthy?");
  }
}

std::optional<LearnedPort> port_of(const SourceFiles& files, const InfinibandPort& port,
                                   std::vector<std::string>& left_out) {
  constexpr int active = 4;
  LearnedPort learned;
  learned.device = port.name();
  const std::string link(files.text(port.path("link_layer")).value_or(""));
  learned.is_infiniband = link == "InfiniBand";
  if (!learned.is_infiniband) return learned;
  const auto state = parse_numbered_state(files.text(port.path("state")).value_or(""));
  const auto rate = parse_link_rate(files.text(port.path("rate")).value_or(""));
  if (!state || state->number != active || !rate) {
    left_out.push_back("ib.ports: " + learned.device + " is " +
                       (state ? state->word : why_missing(files.reading(port.path("state")))) +
                       ": a healthy node's port is ACTIVE");
    return std::nullopt;
  }
  learned.rate_gbps = static_cast<int>(std::lround(rate->gbps));
  learned.width = std::to_string(rate->lanes) + "X";
  return learned;
}

void learn_infiniband(const SourceFiles& files, LearnedNode& node) {
  for (const InfinibandPort& port : find_ports(files)) {
    if (is_virtual_function(files, port.device)) continue;
    if (is_management_device(files, port.device)) {
      node.left_out.push_back("ib.ports: " + port.name() + " carries the default route");
      continue;
    }
    if (const auto learned = port_of(files, port, node.left_out)) {
      node.facts.ports.push_back(*learned);
    }
  }
}

std::optional<std::int64_t> meminfo_kb(const SourceFiles& files, std::string_view key) {
  const auto bytes = parse_meminfo(files.reading("/proc/meminfo").text, key);
  return bytes ? std::optional(*bytes / 1024) : std::nullopt;
}

std::optional<std::int64_t> probed(const SourceFiles& files, std::string_view path,
                                   std::string_view key) {
  const FileReading& reading = files.reading(path);
  return reading.ok() ? probe_number(reading.text, key) : std::nullopt;
}

std::optional<std::int64_t> open_files(const SourceFiles& files) {
  const FileReading& reading = files.reading("rlimit:nofile");
  if (reading.ok() && probe_value(reading.text, "soft") == "unlimited") return nofile_unlimited;
  return probed(files, "rlimit:nofile", "soft");
}

std::optional<int> listed(const SourceFiles& files, std::string_view path) {
  const auto text = files.text(path);
  return text ? count_in_list(*text) : std::nullopt;
}

int local_nvmes(const SourceFiles& files) {
  const std::string nvmes = "/sys/class/nvme";
  int found = 0;
  for (const std::string& name : files.names_below(nvmes)) {
    const auto transport = files.text(nvmes + "/" + name + "/transport").value_or("pcie");
    found += transport == "pcie" ? 1 : 0;
  }
  return found;
}

std::vector<std::string> shared_mounts(const SourceFiles& files) {
  std::vector<std::string> points;
  for (const Mount& mount : parse_mountinfo(files.reading("/proc/self/mountinfo").text)) {
    const bool is_shared = std::ranges::find(shared_types, mount.type) != shared_types.end();
    if (is_shared && std::ranges::find(points, mount.point) == points.end()) {
      points.push_back(mount.point);
    }
  }
  return points;
}

void learn_host(const SourceFiles& files, LearnedNode& node) {
  LearnedFacts& facts = node.facts;
  facts.mem_kb = meminfo_kb(files, "MemTotal");
  facts.swap_kb = meminfo_kb(files, "SwapTotal");
  facts.nofile = open_files(files);
  facts.cpus = listed(files, "/sys/devices/system/cpu/online");
  facts.numa_nodes = listed(files, "/sys/devices/system/node/online");
  facts.nvmes = local_nvmes(files);
  const auto shm_bytes = probed(files, "statvfs:/dev/shm", "bytes");
  if (shm_bytes) facts.shm_kb = *shm_bytes / 1024;
  facts.mounts = shared_mounts(files);
  const auto say = [&](const char* fact, bool is_known, std::string_view path) {
    if (is_known) return;
    node.left_out.push_back(std::string(fact) + ": " + std::string(path) + ": " +
                            why_missing(files.reading(path)));
  };
  say("host.mem_kb", facts.mem_kb.has_value(), "/proc/meminfo");
  say("host.swap_kb", facts.swap_kb.has_value(), "/proc/meminfo");
  say("host.nofile", facts.nofile.has_value(), "rlimit:nofile");
  say("host.cpus", facts.cpus.has_value(), "/sys/devices/system/cpu/online");
  say("host.numa_nodes", facts.numa_nodes.has_value(), "/sys/devices/system/node/online");
  say("host.shm_kb", facts.shm_kb.has_value(), "statvfs:/dev/shm");
}

}  // namespace

NodeReadRequest learning_request() {
  NodeReadRequest request;
  request.sources = gpu_sources();
  for (const std::string_view source : infiniband_sources()) request.sources.emplace_back(source);
  for (std::string& source : host_sources({})) request.sources.push_back(std::move(source));
  request.gpus = GpuReadingScope{.processes = false, .inforom = false, .topology = false};
  return request;
}

LearnedNode facts_of(const NodeReadings& readings, std::string profile_name) {
  LearnedNode node;
  node.facts.profile_name = std::move(profile_name);
  learn_gpus(readings, node);
  learn_infiniband(readings.files, node);
  learn_host(readings.files, node);
  return node;
}

}  // namespace muster
