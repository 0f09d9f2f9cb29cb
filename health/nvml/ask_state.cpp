#include <algorithm>
#include <array>
#include <cstdio>
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
  const struct {
    const char* key;
    const char* symbol;
    NvmlTextCall function;
  } questions[] = {
      {"name", "nvmlDeviceGetName", gpu.nvml.name},
      {"uuid", "nvmlDeviceGetUUID", gpu.nvml.uuid},
      {"serial", "nvmlDeviceGetSerial", gpu.nvml.serial},
      {"vbios", "nvmlDeviceGetVbiosVersion", gpu.nvml.vbios_version},
      {"inforom_image", "nvmlDeviceGetInforomImageVersion", gpu.nvml.inforom_image_version},
  };
  for (const auto& one : questions) {
    std::array<char, 128> text{};
    const NvmlReturn rc = gpu.asker.call(one.symbol, one.function, gpu.device, text.data(),
                                         static_cast<unsigned>(text.size() - 1));
    gpu.asker.tell(one.key, rc, text.data());
  }
}

struct NumberQuestion {
  const char* key;
  const char* symbol;
  NvmlNumberCall function;
};
void ask_number(const NvmlGpu& gpu, const NumberQuestion& question) {
  unsigned value = 0;
  const NvmlReturn rc = gpu.asker.call(question.symbol, question.function, gpu.device, &value);
  gpu.asker.tell_number(question.key, rc, value);
}

struct PairQuestion {
  const char* first_key;
  const char* second_key;
  const char* symbol;
  NvmlPairCall function;
};
void ask_pair(const NvmlGpu& gpu, const PairQuestion& question) {
  unsigned first = 0;
  unsigned second = 0;
  const NvmlReturn rc =
      gpu.asker.call(question.symbol, question.function, gpu.device, &first, &second);
  gpu.asker.tell_number(question.first_key, rc, first);
  gpu.asker.tell_number(question.second_key, rc, second);
}

void ask_indexed(const NvmlGpu& gpu, const std::string& key, const char* symbol,
                 NvmlIndexedCall function, unsigned index) {
  unsigned value = 0;
  const NvmlReturn rc = gpu.asker.call(symbol, function, gpu.device, index, &value);
  gpu.asker.tell_number(key, rc, value);
}

void ask_clocks(const NvmlGpu& gpu) {
  constexpr const char* domains[] = {"graphics", "sm", "mem"};
  for (unsigned domain = 0; domain < 3; ++domain) {
    const std::string name = domains[domain];
    ask_indexed(gpu, "clock." + name, "nvmlDeviceGetClockInfo", gpu.nvml.clock, domain);
    ask_indexed(gpu, "clock.max." + name, "nvmlDeviceGetMaxClockInfo", gpu.nvml.max_clock, domain);
    ask_indexed(gpu, "clock.app." + name, "nvmlDeviceGetApplicationsClock",
                gpu.nvml.applications_clock, domain);
    ask_indexed(gpu, "clock.default." + name, "nvmlDeviceGetDefaultApplicationsClock",
                gpu.nvml.default_applications_clock, domain);
  }
  std::uint64_t reasons = 0;
  const NvmlReturn rc = gpu.asker.call("nvmlDeviceGetCurrentClocksEventReasons",
                                       gpu.nvml.clock_reasons, gpu.device, &reasons);
  gpu.asker.tell("clocks.reasons", rc, hexadecimal(reasons));
}

void ask_temperature(const NvmlGpu& gpu) {
  NvmlTemperature now{};
  now.version = nvml_temperature_v1;
  now.sensor = nvml_sensor_gpu;
  const NvmlReturn rc =
      gpu.asker.call("nvmlDeviceGetTemperatureV", gpu.nvml.temperature_v, gpu.device, &now);
  if (rc == nvml_function_not_found || rc == nvml_version_mismatch)
    return ask_indexed(gpu, "temp.gpu", "nvmlDeviceGetTemperature", gpu.nvml.temperature,
                       nvml_sensor_gpu);
  gpu.asker.tell_number("temp.gpu", rc, now.celsius);
}

// The list of processes grows between two calls.
constexpr int list_attempts = 3;
constexpr unsigned list_slack = 16;
constexpr unsigned list_max = 4096;

template <class Process>
NvmlReturn list_processes(const NvmlGpu& gpu,
                          NvmlReturn (*function)(NvmlDevice, unsigned*, Process*),
                          std::vector<Process>& list) {
  unsigned room = 0;
  NvmlReturn rc = nvml_insufficient_size;
  for (int attempt = 0; attempt < list_attempts && rc == nvml_insufficient_size; ++attempt) {
    list.assign(room, Process{});
    unsigned count = room;
    rc = gpu.asker.call("nvmlDeviceGetComputeRunningProcesses", function, gpu.device, &count,
                        room == 0 ? nullptr : list.data());
    if (rc == nvml_success) list.resize(std::min(count, room));
    room = std::min(count, list_max) + list_slack;
  }
  return rc;
}

template <class Process>
void tell_processes(const NvmlGpu& gpu, NvmlReturn (*function)(NvmlDevice, unsigned*, Process*)) {
  std::vector<Process> list;
  const NvmlReturn rc = list_processes(gpu, function, list);
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
  NvmlReturn rc = gpu.asker.call("nvmlDeviceGetPciInfo", gpu.nvml.pci_info, gpu.device, &pci);
  pci.bus_id[sizeof pci.bus_id - 1] = '\0';
  gpu.asker.tell("bdf", rc, pci.bus_id);
  gpu.asker.tell("pci_id", rc, hexadecimal(pci.pci_device_id));
  ask_number(gpu, {"minor", "nvmlDeviceGetMinorNumber", gpu.nvml.minor_number});
  ask_number(gpu, {"module", "nvmlDeviceGetModuleId", gpu.nvml.module_id});
  std::array<char, 128> version{};
  rc = gpu.asker.call("nvmlDeviceGetGspFirmwareVersion", gpu.nvml.gsp_version, gpu.device,
                      version.data());
  version.back() = '\0';
  gpu.asker.tell("gsp.version", rc, version.data());
  ask_pair(gpu, {"gsp.mode", "gsp.default", "nvmlDeviceGetGspFirmwareMode", gpu.nvml.gsp_mode});
}

void ask_state(const NvmlGpu& gpu) {
  ask_number(gpu, {"persistence", "nvmlDeviceGetPersistenceMode", gpu.nvml.persistence_mode});
  ask_number(gpu, {"compute_mode", "nvmlDeviceGetComputeMode", gpu.nvml.compute_mode});
  ask_pair(gpu, {"mig.current", "mig.pending", "nvmlDeviceGetMigMode", gpu.nvml.mig_mode});
  ask_clocks(gpu);
  ask_number(gpu, {"power.draw", "nvmlDeviceGetPowerUsage", gpu.nvml.power_usage});
  ask_number(gpu,
             {"power.enforced", "nvmlDeviceGetEnforcedPowerLimit", gpu.nvml.enforced_power_limit});
  ask_number(gpu, {"power.default", "nvmlDeviceGetPowerManagementDefaultLimit",
                   gpu.nvml.default_power_limit});
}

void ask_temperatures(const NvmlGpu& gpu) {
  ask_temperature(gpu);
  constexpr const char* thresholds[] = {"shutdown", "slowdown", "memory_max", "gpu_max"};
  for (unsigned which = 0; which < 4; ++which) {
    ask_indexed(gpu, std::string("temp.") + thresholds[which], "nvmlDeviceGetTemperatureThreshold",
                gpu.nvml.temperature_threshold, which);
  }
  NvmlMarginTemperature margin{};
  margin.version = nvml_margin_v1;
  const NvmlReturn rc = gpu.asker.call("nvmlDeviceGetMarginTemperature",
                                       gpu.nvml.margin_temperature, gpu.device, &margin);
  gpu.asker.tell_number("temp.margin", rc, margin.celsius);
}

void ask_processes(const NvmlGpu& gpu) {
  if (gpu.nvml.processes != nullptr) return tell_processes(gpu, gpu.nvml.processes);
  tell_processes(gpu, gpu.nvml.processes_v1);
}

}  // namespace muster
