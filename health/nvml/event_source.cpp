#include "health/nvml/event_source.h"

#include <algorithm>
#include <utility>

#include "health/model/gpu_readings.h"

namespace muster {

namespace {

Error failed(const char* what, NvmlReturn rc) {
  return Error{std::string(what) + ": " + nvml_code_text(rc)};
}

bool has_events(const NvmlFunctions& nvml) {
  return nvml.event_set_create != nullptr && nvml.event_set_wait != nullptr &&
         nvml.event_set_free != nullptr && nvml.register_events != nullptr &&
         nvml.supported_event_types != nullptr && nvml.count != nullptr &&
         nvml.handle_by_index != nullptr;
}

}  // namespace

Result<GpuEventSource> GpuEventSource::open(const NvmlFunctions& nvml, std::uint64_t types) {
  if (!has_events(nvml)) return failed("GPU events", nvml_function_not_found);
  NvmlEventSet set = nullptr;
  if (const NvmlReturn rc = nvml.event_set_create(&set); rc != nvml_success)
    return failed("nvmlEventSetCreate", rc);
  GpuEventSource source(nvml, set);
  if (source.register_gpus(types) == 0) return Error{"no GPU reports events"};
  return source;
}

GpuEventSource::GpuEventSource(GpuEventSource&& other) noexcept
    : nvml_(other.nvml_),
      set_(std::exchange(other.set_, nullptr)),
      devices_(std::move(other.devices_)) {}

GpuEventSource::~GpuEventSource() {
  if (set_ != nullptr) nvml_.event_set_free(set_);
}

int GpuEventSource::register_gpus(std::uint64_t types) {
  unsigned count = 0;
  if (nvml_.count(&count) != nvml_success) return 0;
  int telling = 0;
  for (unsigned index = 0; index < std::min(count, nvml_gpus_max); ++index) {
    NvmlDevice device = nullptr;
    std::uint64_t supported = 0;
    const bool is_there = nvml_.handle_by_index(index, &device) == nvml_success &&
                          nvml_.supported_event_types(device, &supported) == nvml_success;
    devices_.push_back(device);
    if (!is_there || (supported & types) == 0) continue;
    if (nvml_.register_events(device, supported & types, set_) == nvml_success) ++telling;
  }
  return telling;
}

Result<std::optional<GpuEvent>> GpuEventSource::wait(std::chrono::milliseconds timeout) {
  NvmlEventData data{};
  const NvmlReturn rc = nvml_.event_set_wait(set_, &data, static_cast<unsigned>(timeout.count()));
  if (rc == nvml_timeout) return std::optional<GpuEvent>();
  if (rc != nvml_success) return failed("nvmlEventSetWait", rc);
  GpuEvent event{std::nullopt, data.type, data.data};
  const auto found = std::ranges::find(devices_, data.device);
  if (found != devices_.end() && data.device != nullptr)
    event.gpu = static_cast<int>(found - devices_.begin());
  return std::optional(event);
}

}  // namespace muster
