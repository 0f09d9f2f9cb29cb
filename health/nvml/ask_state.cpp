#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "health/nvml/reader.h"

namespace muster {

namespace {

std::string hexadecimal(std::uint64_t mask) {
  char text[19];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(mask));
  return text;
}

void ask_texts(const NvmlGpu& gpu) {
  constexpr std::pair<const char*, const char*> questions[] = {
      {"name", "nvmlDeviceGetName"},
      {"uuid", "nvmlDeviceGetUUID"},
      {"serial", "nvmlDeviceGetSerial"},
      {"vbios", "nvmlDeviceGetVbiosVersion"},
      {"inforom_image", "nvmlDeviceGetInforomImageVersion"},
  };
  for (const auto& [key, name] : questions) {
    std::array<char, 128> text{};
    const NvmlReturn rc = gpu.call(name, text.data(), static_cast<unsigned>(text.size() - 1));
    gpu.asker.tell(key, rc, text.data());
  }
}

void ask_clocks(const NvmlGpu& gpu) {
  constexpr const char* domains[] = {"graphics", "sm", "mem"};
  for (unsigned domain = 0; domain < 3; ++domain) {
    const std::string name = domains[domain];
    gpu.ask_number("clock." + name, "nvmlDeviceGetClockInfo", domain);
    gpu.ask_number("clock.max." + name, "nvmlDeviceGetMaxClockInfo", domain);
    gpu.ask_number("clock.app." + name, "nvmlDeviceGetApplicationsClock", domain);
    gpu.ask_number("clock.default." + name, "nvmlDeviceGetDefaultApplicationsClock", domain);
  }
  std::uint64_t reasons = 0;
  const NvmlReturn rc =
      gpu.call({"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksEventReasons",
                "nvmlDeviceGetCurrentClocksThrottleReasons"},
               &reasons);
  gpu.asker.tell("clocks.reasons", rc, hexadecimal(reasons));
}

void ask_temperature(const NvmlGpu& gpu) {
  NvmlTemperature now{};
  now.version = nvml_temperature_v1;
  now.sensor = nvml_sensor_gpu;
  const NvmlReturn rc = gpu.call("nvmlDeviceGetTemperatureV", &now);
  if (rc == nvml_function_not_found || rc == nvml_version_mismatch) {
    gpu.ask_number("temp.gpu", "nvmlDeviceGetTemperature", nvml_sensor_gpu);
  } else {
    gpu.asker.report_number("temp.gpu", rc, now.celsius);
  }
}

// The list of processes grows between two calls.
constexpr int list_attempts = 3;
constexpr unsigned list_slack = 16;
constexpr unsigned list_max = 4096;

template <class Process>
NvmlReturn list_processes(const NvmlGpu& gpu, const NvmlCall& what, std::vector<Process>& list) {
  unsigned room = 0;
  NvmlReturn rc = nvml_insufficient_size;
  for (int attempt = 0; attempt < list_attempts && rc == nvml_insufficient_size; ++attempt) {
    list.assign(room, Process{});
    unsigned count = room;
    rc = gpu.call(what, &count, room == 0 ? nullptr : list.data());
    if (rc == nvml_success) list.resize(std::min(count, room));
    room = std::min(count, list_max) + list_slack;
  }
  return rc;
}

template <class Process>
void report_processes(const NvmlGpu& gpu, const NvmlCall& what) {
  std::vector<Process> list;
  const NvmlReturn rc = list_processes(gpu, what, list);
  std::string text;
  for (const Process& process : list) {
    text += (text.empty() ? "" : " ") + std::to_string(process.pid) + ":" +
            std::to_string(process.used_memory);
  }
  gpu.asker.tell("procs", rc, text.empty() ? "none" : text);
}

}  // namespace

void ask_identity(const NvmlGpu& gpu) {
  ask_texts(gpu);
  NvmlPciInfo pci{};
  NvmlReturn rc = gpu.call({"nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v3"}, &pci);
  pci.bus_id[sizeof pci.bus_id - 1] = '\0';
  gpu.asker.tell("bdf", rc, pci.bus_id);
  gpu.asker.tell("pci_id", rc, hexadecimal(pci.pci_device_id));
  gpu.ask_number("minor", "nvmlDeviceGetMinorNumber");
  gpu.ask_number("module", "nvmlDeviceGetModuleId");
  std::array<char, 128> version{};
  rc = gpu.call("nvmlDeviceGetGspFirmwareVersion", version.data());
  version.back() = '\0';
  gpu.asker.tell("gsp.version", rc, version.data());
  gpu.ask_pair("gsp.mode", "gsp.default", "nvmlDeviceGetGspFirmwareMode");
}

void ask_state(const NvmlGpu& gpu) {
  gpu.ask_number("persistence", "nvmlDeviceGetPersistenceMode");
  gpu.ask_number("compute_mode", "nvmlDeviceGetComputeMode");
  gpu.ask_pair("mig.current", "mig.pending", "nvmlDeviceGetMigMode");
  ask_clocks(gpu);
  gpu.ask_number("power.draw", "nvmlDeviceGetPowerUsage");
  gpu.ask_number("power.enforced", "nvmlDeviceGetEnforcedPowerLimit");
  gpu.ask_number("power.default", "nvmlDeviceGetPowerManagementDefaultLimit");
}

void ask_temperatures(const NvmlGpu& gpu) {
  ask_temperature(gpu);
  constexpr const char* thresholds[] = {"shutdown", "slowdown", "memory_max", "gpu_max"};
  for (unsigned which = 0; which < 4; ++which) {
    gpu.ask_number(std::string("temp.") + thresholds[which], "nvmlDeviceGetTemperatureThreshold",
                   which);
  }
  NvmlMarginTemperature margin{};
  margin.version = nvml_margin_v1;
  const NvmlReturn rc = gpu.call("nvmlDeviceGetMarginTemperature", &margin);
  gpu.asker.report_number("temp.margin", rc, margin.celsius);
}

void ask_processes(const NvmlGpu& gpu) {
  constexpr const char* name = "nvmlDeviceGetComputeRunningProcesses";
  const NvmlCall newer{name, "nvmlDeviceGetComputeRunningProcesses_v3",
                       "nvmlDeviceGetComputeRunningProcesses_v2"};
  if (gpu.asker.has(newer)) return report_processes<NvmlProcessInfo>(gpu, newer);
  report_processes<NvmlProcessInfoV1>(gpu, name);
}

}  // namespace muster
