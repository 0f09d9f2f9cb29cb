#include "health/checks/gpu/device_nodes.h"

#include "health/model/check.h"

namespace muster {

std::vector<std::string> gpu_device_nodes(const HealthProfile& profile) {
  std::vector<std::string> nodes;
  const int gpus = profile.gpu.count.value_or(0);
  if (gpus == 0) return nodes;
  for (int gpu = 0; gpu < gpus; ++gpu) nodes.push_back("open:/dev/nvidia" + std::to_string(gpu));
  nodes.emplace_back("open:/dev/nvidiactl");
  nodes.emplace_back("open:/dev/nvidia-uvm");
  return nodes;
}

std::optional<HealthFinding> judge_gpu_device_nodes(const SourceFiles& files,
                                                    const HealthProfile& profile) {
  const auto nodes = gpu_device_nodes(profile);
  if (nodes.empty()) return std::nullopt;
  HealthFinding finding = make_finding("gpu.devnodes", "", CheckStatus::pass);
  std::size_t open = 0;
  bool is_refused = false;
  for (const std::string& node : nodes) {
    const FileReading& reading = files.reading(node);
    if (reading.ok()) ++open;
    const bool is_denied = reading.is_missing || reading.error.starts_with("Permission denied");
    is_refused = is_refused || (!reading.ok() && is_denied);
    if (!reading.ok()) finding.evidence.push_back(node + ": " + reading.error);
  }
  finding.value = std::to_string(open) + " open";
  finding.expected = std::to_string(nodes.size()) + " open";
  if (open == nodes.size()) return finding;
  finding.status = is_refused ? CheckStatus::fail : CheckStatus::unknown;
  return finding;
}

}  // namespace muster
