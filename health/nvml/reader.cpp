#include "health/nvml/reader.h"

#include <algorithm>
#include <array>
#include <vector>

#include "health/nvml/reader.h"

namespace muster {

namespace {

constexpr std::size_t cpu_mask_words = 16;  // 1,024 CPUs
constexpr int p2p_capability_nvlink = 2;

using Theme = void (*)(const NvmlGpu&);
constexpr std::array<Theme, 8> themes{ask_identity, ask_memory, ask_row_repairs, ask_fields,
                                      ask_links,    ask_fabric, ask_state,       ask_temperatures};

void ask_node(const NvmlFunctions& nvml, NvmlAsker& asker) {
  std::array<char, 128> text{};
  NvmlReturn rc =
      asker.call("nvmlSystemGetDriverVersion", nvml.driver_version, text.data(), text.size());
  text.back() = '\0';
  asker.tell("driver", rc, text.data());
  rc = asker.call("nvmlSystemGetNVMLVersion", nvml.nvml_version, text.data(), text.size());
  text.back() = '\0';
  asker.tell("nvml", rc, text.data());
  int cuda = 0;
  rc = asker.call("nvmlSystemGetCudaDriverVersion", nvml.cuda_version, &cuda);
  asker.tell_number("cuda", rc, cuda);
}

void ask_inforom(const NvmlGpu& gpu) {
  gpu.asker.tell("inforom",
                 gpu.asker.call("nvmlDeviceValidateInforom", gpu.nvml.validate_inforom, gpu.device),
                 "valid");
}

void ask_cpus(const NvmlGpu& gpu) {
  std::array<unsigned long, cpu_mask_words> words{};
  const NvmlReturn rc = gpu.asker.call("nvmlDeviceGetCpuAffinity", gpu.nvml.cpu_affinity,
                                       gpu.device, unsigned{cpu_mask_words}, words.data());
  std::string ranges;
  const auto is_set = [&words](std::size_t cpu) {
    return cpu < cpu_mask_words * 64 && (words[cpu / 64] >> cpu % 64 & 1) != 0;
  };
  for (std::size_t cpu = 0; cpu < cpu_mask_words * 64; ++cpu) {
    if (!is_set(cpu) || (cpu > 0 && is_set(cpu - 1))) continue;
    std::size_t last = cpu;
    while (is_set(last + 1)) ++last;
    ranges += (ranges.empty() ? "" : ",") + std::to_string(cpu) + "-" + std::to_string(last);
  }
  gpu.asker.tell("cpus", rc, ranges);
}

void ask_topology(const NvmlGpu& gpu, const std::vector<NvmlDevice>& devices, unsigned self) {
  ask_cpus(gpu);
  for (unsigned peer = 0; peer < devices.size(); ++peer) {
    if (peer == self || devices[peer] == nullptr) continue;
    int level = 0;
    NvmlReturn rc = gpu.asker.call("nvmlDeviceGetTopologyCommonAncestor", gpu.nvml.common_ancestor,
                                   gpu.device, devices[peer], &level);
    gpu.asker.tell_number("topo." + std::to_string(peer), rc, level);
    int status = 0;
    rc = gpu.asker.call("nvmlDeviceGetP2PStatus", gpu.nvml.p2p_status, gpu.device, devices[peer],
                        p2p_capability_nvlink, &status);
    gpu.asker.tell_number("p2p." + std::to_string(peer), rc, status);
  }
}

void ask_gpu(const NvmlFunctions& nvml, const std::vector<NvmlDevice>& devices, unsigned index,
             const GpuReadingScope& scope, NvmlAsker& asker) {
  const NvmlGpu gpu{nvml, devices[index], asker};
  for (const Theme theme : themes) {
    if (!asker.is_lost()) theme(gpu);
  }
  if (scope.processes && !asker.is_lost()) ask_processes(gpu);
  if (scope.inforom && !asker.is_lost()) ask_inforom(gpu);
  if (scope.topology && !asker.is_lost()) ask_topology(gpu, devices, index);
}

void ask_gpus(const NvmlFunctions& nvml, unsigned count, const GpuReadingScope& scope,
              const GpuReadingSink& sink) {
  std::vector<NvmlDevice> devices(count, nullptr);
  std::vector<NvmlAsker> askers;
  for (unsigned index = 0; index < count; ++index) {
    askers.emplace_back(sink, "gpu" + std::to_string(index) + ".");
    const NvmlReturn rc = askers.back().call("nvmlDeviceGetHandleByIndex", nvml.handle_by_index,
                                             index, &devices[index]);
    askers.back().tell("handle", rc, "ok");
    if (rc != nvml_success) devices[index] = nullptr;
  }
  for (unsigned index = 0; index < count; ++index) {
    if (devices[index] != nullptr) ask_gpu(nvml, devices, index, scope, askers[index]);
  }
}

}  // namespace

void read_gpus(const NvmlFunctions& nvml, const GpuReadingScope& scope,
               const GpuReadingSink& sink) {
  NvmlAsker node(sink, "");
  const NvmlReturn begun = node.call("nvmlInit", nvml.init);
  node.tell("init", begun, "ok");
  if (begun != nvml_success) return;
  ask_node(nvml, node);
  unsigned count = 0;
  const NvmlReturn counted = node.call("nvmlDeviceGetCount", nvml.count, &count);
  node.tell_number("count", counted, count);
  if (counted == nvml_success) ask_gpus(nvml, std::min(count, nvml_gpus_max), scope, sink);
  static_cast<void>(node.call("nvmlShutdown", nvml.shutdown));
}

GpuReadings read_gpus_of_library(const std::string& path, const GpuReadingScope& scope) {
  GpuReadings readings;
  const auto library = NvmlLibrary::load(path);
  if (!library) {
    readings.add("init", {nvml_library_not_found, {}});
  } else {
    const GpuReadingSink sink{
        [&readings](const std::string& call) { readings.begin_call(call); },
        [&readings](const std::string& key, const GpuReading& one) { readings.add(key, one); }};
    read_gpus(library->functions(), scope, sink);
  }
  readings.complete();
  return readings;
}

}  // namespace muster
