#include "health/nvml/clock_reader.h"

#include <algorithm>
#include <utility>

#include "health/model/gpu_readings.h"

namespace muster {

Result<GpuClockReader> GpuClockReader::open(NvmlLibrary library) {
  GpuClockReader reader(std::move(library));
  const NvmlFunctions& nvml = reader.library_.functions();
  if (nvml.init == nullptr || nvml.count == nullptr || nvml.handle_by_index == nullptr)
    return Error{"the driver's library lacks what counts GPUs"};
  const NvmlReturn begun = nvml.init();
  if (begun != nvml_success) return Error{"nvmlInit: " + nvml_code_text(begun)};
  unsigned count = 0;
  const NvmlReturn counted = nvml.count(&count);
  if (counted != nvml_success) return Error{"nvmlDeviceGetCount: " + nvml_code_text(counted)};
  for (unsigned gpu = 0; gpu < std::min(count, nvml_gpus_max); ++gpu) {
    NvmlDevice device = nullptr;
    const NvmlReturn rc = nvml.handle_by_index(gpu, &device);
    reader.devices_.push_back(rc == nvml_success ? device : nullptr);
  }
  return reader;
}

std::vector<GpuClocks> GpuClockReader::read() const {
  std::vector<GpuClocks> all;
  for (unsigned gpu = 0; gpu < devices_.size(); ++gpu) all.push_back(read(gpu));
  return all;
}

GpuClocks GpuClockReader::read(unsigned gpu) const {
  GpuClocks clocks;
  clocks.gpu = static_cast<int>(gpu);
  const auto ask = library_.functions().clock_reasons;
  if (ask == nullptr || devices_[gpu] == nullptr) {
    clocks.rc = ask == nullptr ? nvml_function_not_found : nvml_gpu_is_lost;
    return clocks;
  }
  clocks.rc = ask(devices_[gpu], &clocks.reasons);
  if (clocks.rc == nvml_success) clocks.celsius = temperature(devices_[gpu]);
  return clocks;
}

std::optional<int> GpuClockReader::temperature(NvmlDevice device) const {
  const NvmlFunctions& nvml = library_.functions();
  NvmlTemperature now{};
  now.version = nvml_temperature_v1;
  now.sensor = nvml_sensor_gpu;
  if (nvml.temperature_v != nullptr && nvml.temperature_v(device, &now) == nvml_success)
    return now.celsius;
  unsigned celsius = 0;
  const bool is_told = nvml.temperature != nullptr &&
                       nvml.temperature(device, nvml_sensor_gpu, &celsius) == nvml_success;
  return is_told ? std::optional(static_cast<int>(celsius)) : std::nullopt;
}

}  // namespace muster
