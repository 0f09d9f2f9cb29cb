#include "health/nvml/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "health/model/gpu_readings.h"

namespace muster {

namespace {

std::string path_or_usual(std::string path) {
  if (!path.empty()) return path;
  const char* named = std::getenv(nvml_library_variable);
  return named != nullptr && *named != '\0' ? named : nvml_library_default;
}

Error failed(const char* what, NvmlReturn rc) {
  return Error{std::string(what) + ": " + nvml_code_text(rc)};
}

constexpr NvmlCall create_set{"nvmlEventSetCreate"};
constexpr NvmlCall wait_for_event{"nvmlEventSetWait", "nvmlEventSetWait_v2", "nvmlEventSetWait"};
constexpr NvmlCall free_set{"nvmlEventSetFree"};
constexpr NvmlCall supported_types{"nvmlDeviceGetSupportedEventTypes"};
constexpr NvmlCall register_events{"nvmlDeviceRegisterEvents"};

bool has_events(const NvmlLibrary& nvml) {
  return std::ranges::all_of(std::array{create_set, wait_for_event, free_set, supported_types,
                                        register_events, nvml_count, nvml_handle},
                             [&](const NvmlCall& what) { return nvml.has(what); });
}

}  // namespace

void NvmlLibrary::Unload::operator()(void* handle) const {
  ::dlclose(handle);
}

Result<NvmlLibrary> NvmlLibrary::load(std::string path) {
  path = path_or_usual(std::move(path));
  void* handle = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Error{"cannot load " + path + ": " + (why == nullptr ? "no reason given" : why)};
  }
  NvmlLibrary library;
  library.handle_.reset(handle);
  return library;
}

void* NvmlLibrary::find(const NvmlCall& what) const {
  if (!handle_) return nullptr;
  for (const char* symbol : what.symbols) {
    void* found = symbol == nullptr ? nullptr : ::dlsym(handle_.get(), symbol);
    if (found != nullptr) return found;
  }
  return nullptr;
}

Result<GpuEventSource> GpuEventSource::open(const NvmlLibrary& nvml, std::uint64_t types) {
  if (!has_events(nvml)) return failed("GPU events", nvml_function_not_found);
  NvmlEventSet set = nullptr;
  if (const NvmlReturn rc = nvml.call(create_set, &set); rc != nvml_success)
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
  if (set_ != nullptr) nvml_.call(free_set, set_);
}

int GpuEventSource::register_gpus(std::uint64_t types) {
  unsigned count = 0;
  if (nvml_.call(nvml_count, &count) != nvml_success) return 0;
  int telling = 0;
  for (unsigned index = 0; index < std::min(count, nvml_gpus_max); ++index) {
    NvmlDevice device = nullptr;
    std::uint64_t supported = 0;
    const bool is_there = nvml_.call(nvml_handle, index, &device) == nvml_success &&
                          nvml_.call(supported_types, device, &supported) == nvml_success;
    devices_.push_back(device);
    if (!is_there || (supported & types) == 0) continue;
    if (nvml_.call(register_events, device, supported & types, set_) == nvml_success) ++telling;
  }
  return telling;
}

Result<std::optional<GpuEvent>> GpuEventSource::wait(std::chrono::milliseconds timeout) {
  NvmlEventData data{};
  const NvmlReturn rc =
      nvml_.call(wait_for_event, set_, &data, static_cast<unsigned>(timeout.count()));
  if (rc == nvml_timeout) return std::optional<GpuEvent>();
  if (rc != nvml_success) return failed("nvmlEventSetWait", rc);
  GpuEvent event{std::nullopt, data.type, data.data};
  const auto found = std::ranges::find(devices_, data.device);
  if (found != devices_.end() && data.device != nullptr)
    event.gpu = static_cast<int>(found - devices_.begin());
  return std::optional(event);
}

}  // namespace muster
