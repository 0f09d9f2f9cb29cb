#include "health/nvml/reader.h"

#include <algorithm>
#include <array>
#include <vector>

namespace muster {

namespace {

using Theme = void (*)(const NvmlGpu&);
constexpr std::array<Theme, 8> themes{ask_identity, ask_memory, ask_row_repairs, ask_fields,
                                      ask_links,    ask_fabric, ask_state,       ask_temperatures};

void ask_node(NvmlAsker& asker) {
  const std::pair<const char*, const char*> texts[] = {{"driver", "nvmlSystemGetDriverVersion"},
                                                       {"nvml", "nvmlSystemGetNVMLVersion"}};
  for (const auto& [key, name] : texts) {
    std::array<char, 128> text{};
    const NvmlReturn rc = asker.call(name, text.data(), static_cast<unsigned>(text.size()));
    text.back() = '\0';
    asker.tell(key, rc, text.data());
  }
  int cuda = 0;
  const NvmlReturn rc =
      asker.call({"nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2",
                  "nvmlSystemGetCudaDriverVersion"},
                 &cuda);
  asker.report_number("cuda", rc, cuda);
}

void ask_inforom(const NvmlGpu& gpu) {
  gpu.asker.tell("inforom", gpu.call("nvmlDeviceValidateInforom"), "valid");
}

void ask_gpu(const NvmlGpu& gpu, const GpuReadingScope& scope) {
  for (const Theme theme : themes) {
    if (!gpu.asker.is_lost()) theme(gpu);
  }
  if (scope.processes && !gpu.asker.is_lost()) ask_processes(gpu);
  if (scope.inforom && !gpu.asker.is_lost()) ask_inforom(gpu);
}

void ask_gpus(const NvmlLibrary& nvml, unsigned count, const GpuReadingScope& scope,
              const GpuReadingSink& sink) {
  std::vector<NvmlDevice> devices(count, nullptr);
  std::vector<NvmlAsker> askers;
  for (unsigned index = 0; index < count; ++index) {
    askers.emplace_back(nvml, sink, "gpu" + std::to_string(index) + ".");
    const NvmlReturn rc = askers.back().call(nvml_handle, index, &devices[index]);
    askers.back().tell("handle", rc, "ok");
    if (rc != nvml_success) devices[index] = nullptr;
  }
  for (unsigned index = 0; index < count; ++index) {
    if (devices[index] != nullptr) ask_gpu({devices[index], askers[index]}, scope);
  }
}

}  // namespace

void read_gpus(const NvmlLibrary& nvml, const GpuReadingScope& scope, const GpuReadingSink& sink) {
  NvmlAsker node(nvml, sink, "");
  const NvmlReturn begun = node.call(nvml_init);
  node.tell("init", begun, "ok");
  if (begun != nvml_success) return;
  ask_node(node);
  unsigned count = 0;
  const NvmlReturn counted = node.call(nvml_count, &count);
  node.report_number("count", counted, count);
  if (counted == nvml_success) ask_gpus(nvml, std::min(count, nvml_gpus_max), scope, sink);
  static_cast<void>(node.call(nvml_shutdown));
}

}  // namespace muster
