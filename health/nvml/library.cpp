#include "health/nvml/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <initializer_list>

namespace muster {

namespace {

class Binder {
 public:
  explicit Binder(void* handle) : handle_(handle) {}

  // The first name that the library has.
  template <class Function>
  void bind(Function& function, std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (function == nullptr) function = reinterpret_cast<Function>(::dlsym(handle_, name));
    }
  }

 private:
  void* handle_;
};

void bind_system(const Binder& library, NvmlFunctions& nvml) {
  library.bind(nvml.init, {"nvmlInit_v2"});
  library.bind(nvml.shutdown, {"nvmlShutdown"});
  library.bind(nvml.error_string, {"nvmlErrorString"});
  library.bind(nvml.driver_version, {"nvmlSystemGetDriverVersion"});
  library.bind(nvml.nvml_version, {"nvmlSystemGetNVMLVersion"});
  library.bind(nvml.cuda_version,
               {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  library.bind(nvml.count, {"nvmlDeviceGetCount_v2"});
  library.bind(nvml.handle_by_index, {"nvmlDeviceGetHandleByIndex_v2"});
  library.bind(nvml.validate_inforom, {"nvmlDeviceValidateInforom"});
  library.bind(nvml.event_set_create, {"nvmlEventSetCreate"});
  library.bind(nvml.event_set_wait, {"nvmlEventSetWait_v2", "nvmlEventSetWait"});
  library.bind(nvml.event_set_free, {"nvmlEventSetFree"});
  library.bind(nvml.supported_event_types, {"nvmlDeviceGetSupportedEventTypes"});
  library.bind(nvml.register_events, {"nvmlDeviceRegisterEvents"});
}

void bind_identity(const Binder& library, NvmlFunctions& nvml) {
  library.bind(nvml.name, {"nvmlDeviceGetName"});
  library.bind(nvml.uuid, {"nvmlDeviceGetUUID"});
  library.bind(nvml.serial, {"nvmlDeviceGetSerial"});
  library.bind(nvml.vbios_version, {"nvmlDeviceGetVbiosVersion"});
  library.bind(nvml.inforom_image_version, {"nvmlDeviceGetInforomImageVersion"});
  library.bind(nvml.gsp_version, {"nvmlDeviceGetGspFirmwareVersion"});
  library.bind(nvml.gsp_mode, {"nvmlDeviceGetGspFirmwareMode"});
  library.bind(nvml.pci_info, {"nvmlDeviceGetPciInfo_v3"});
  library.bind(nvml.minor_number, {"nvmlDeviceGetMinorNumber"});
  library.bind(nvml.module_id, {"nvmlDeviceGetModuleId"});
}

void bind_memory(const Binder& library, NvmlFunctions& nvml) {
  library.bind(nvml.ecc_mode, {"nvmlDeviceGetEccMode"});
  library.bind(nvml.total_ecc_errors, {"nvmlDeviceGetTotalEccErrors"});
  library.bind(nvml.memory_error_counter, {"nvmlDeviceGetMemoryErrorCounter"});
  library.bind(nvml.sram_errors, {"nvmlDeviceGetSramEccErrorStatus"});
  library.bind(nvml.remapped_rows, {"nvmlDeviceGetRemappedRows"});
  library.bind(nvml.remapped_rows_v2, {"nvmlDeviceGetRemappedRows_v2"});
  library.bind(nvml.remap_histogram, {"nvmlDeviceGetRowRemapperHistogram"});
  library.bind(nvml.retired_pages_v2, {"nvmlDeviceGetRetiredPages_v2"});
  library.bind(nvml.retired_pages, {"nvmlDeviceGetRetiredPages"});
  library.bind(nvml.retired_pages_pending, {"nvmlDeviceGetRetiredPagesPendingStatus"});
  library.bind(nvml.unrepairable_memory, {"nvmlDeviceGetUnrepairableMemoryFlag_v1"});
  library.bind(nvml.repair_status, {"nvmlDeviceGetRepairStatus"});
  library.bind(nvml.memory_v2, {"nvmlDeviceGetMemoryInfo_v2"});
  library.bind(nvml.memory, {"nvmlDeviceGetMemoryInfo"});
}

void bind_links(const Binder& library, NvmlFunctions& nvml) {
  library.bind(nvml.link_state, {"nvmlDeviceGetNvLinkState"});
  library.bind(nvml.link_error_counter, {"nvmlDeviceGetNvLinkErrorCounter"});
  library.bind(nvml.link_remote_pci, {"nvmlDeviceGetNvLinkRemotePciInfo_v2"});
  library.bind(nvml.link_info, {"nvmlDeviceGetNvLinkInfo"});
  library.bind(nvml.field_values, {"nvmlDeviceGetFieldValues"});
  library.bind(nvml.pcie_generation, {"nvmlDeviceGetCurrPcieLinkGeneration"});
  library.bind(nvml.pcie_width, {"nvmlDeviceGetCurrPcieLinkWidth"});
  library.bind(nvml.pcie_max_generation, {"nvmlDeviceGetMaxPcieLinkGeneration"});
  library.bind(nvml.pcie_max_width, {"nvmlDeviceGetMaxPcieLinkWidth"});
  library.bind(nvml.pcie_gpu_max_generation, {"nvmlDeviceGetGpuMaxPcieLinkGeneration"});
  library.bind(nvml.pcie_replay_counter, {"nvmlDeviceGetPcieReplayCounter"});
  library.bind(nvml.pcie_speed, {"nvmlDeviceGetPcieSpeed"});
  library.bind(nvml.fabric_info, {"nvmlDeviceGetGpuFabricInfoV"});
  library.bind(nvml.fabric_info_v1, {"nvmlDeviceGetGpuFabricInfo"});
  library.bind(nvml.common_ancestor, {"nvmlDeviceGetTopologyCommonAncestor"});
  library.bind(nvml.p2p_status, {"nvmlDeviceGetP2PStatus"});
  library.bind(nvml.cpu_affinity, {"nvmlDeviceGetCpuAffinity"});
}

void bind_state(const Binder& library, NvmlFunctions& nvml) {
  library.bind(nvml.persistence_mode, {"nvmlDeviceGetPersistenceMode"});
  library.bind(nvml.compute_mode, {"nvmlDeviceGetComputeMode"});
  library.bind(nvml.mig_mode, {"nvmlDeviceGetMigMode"});
  library.bind(nvml.clock_reasons, {"nvmlDeviceGetCurrentClocksEventReasons",
                                    "nvmlDeviceGetCurrentClocksThrottleReasons"});
  library.bind(nvml.clock, {"nvmlDeviceGetClockInfo"});
  library.bind(nvml.max_clock, {"nvmlDeviceGetMaxClockInfo"});
  library.bind(nvml.applications_clock, {"nvmlDeviceGetApplicationsClock"});
  library.bind(nvml.default_applications_clock, {"nvmlDeviceGetDefaultApplicationsClock"});
  library.bind(nvml.temperature_v, {"nvmlDeviceGetTemperatureV"});
  library.bind(nvml.temperature, {"nvmlDeviceGetTemperature"});
  library.bind(nvml.temperature_threshold, {"nvmlDeviceGetTemperatureThreshold"});
  library.bind(nvml.margin_temperature, {"nvmlDeviceGetMarginTemperature"});
  library.bind(nvml.power_usage, {"nvmlDeviceGetPowerUsage"});
  library.bind(nvml.enforced_power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  library.bind(nvml.default_power_limit, {"nvmlDeviceGetPowerManagementDefaultLimit"});
  library.bind(nvml.processes, {"nvmlDeviceGetComputeRunningProcesses_v3",
                                "nvmlDeviceGetComputeRunningProcesses_v2"});
  library.bind(nvml.processes_v1, {"nvmlDeviceGetComputeRunningProcesses"});
}

std::string path_or_usual(std::string path) {
  if (!path.empty()) return path;
  const char* named = std::getenv(nvml_library_variable);
  return named != nullptr && *named != '\0' ? named : nvml_library_default;
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
  const Binder binder(handle);
  bind_system(binder, library.functions_);
  bind_identity(binder, library.functions_);
  bind_memory(binder, library.functions_);
  bind_links(binder, library.functions_);
  bind_state(binder, library.functions_);
  return library;
}

}  // namespace muster
