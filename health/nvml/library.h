// The management library of the driver, loaded while the program runs: nodes without GPUs have
// none, and old drivers lack functions. A function that is absent is a null pointer. Calls may hang
// in the kernel for ever: used in a child process that can be killed, by one thread.
#pragma once

#include <memory>
#include <string>

#include "health/nvml/api.h"
#include "scheduler/model/result.h"

namespace muster {

// Of several names of a function the newest that the library has. Members without a comment are
// nvmlDeviceGet<Name>.
struct NvmlFunctions {
  NvmlReturn (*init)() = nullptr;      // nvmlInit_v2
  NvmlReturn (*shutdown)() = nullptr;  // nvmlShutdown
  const char* (*error_string)(NvmlReturn) = nullptr;
  NvmlReturn (*driver_version)(char*, unsigned) = nullptr;  // nvmlSystemGet…
  NvmlReturn (*nvml_version)(char*, unsigned) = nullptr;
  NvmlReturn (*cuda_version)(int*) = nullptr;
  NvmlReturn (*count)(unsigned*) = nullptr;
  NvmlReturn (*handle_by_index)(unsigned, NvmlDevice*) = nullptr;
  NvmlReturn (*validate_inforom)(NvmlDevice) = nullptr;  // nvmlDeviceValidateInforom

  NvmlTextCall name = nullptr;
  NvmlTextCall uuid = nullptr;
  NvmlTextCall serial = nullptr;
  NvmlTextCall vbios_version = nullptr;
  NvmlTextCall inforom_image_version = nullptr;
  NvmlReturn (*gsp_version)(NvmlDevice, char*) = nullptr;
  NvmlPairCall gsp_mode = nullptr;
  NvmlStructCall<NvmlPciInfo> pci_info = nullptr;
  NvmlNumberCall minor_number = nullptr;
  NvmlNumberCall module_id = nullptr;

  NvmlPairCall ecc_mode = nullptr;
  NvmlReturn (*total_ecc_errors)(NvmlDevice, int, int, std::uint64_t*) = nullptr;
  NvmlReturn (*memory_error_counter)(NvmlDevice, int, int, int, std::uint64_t*) = nullptr;
  NvmlStructCall<NvmlSramErrors> sram_errors = nullptr;
  NvmlReturn (*remapped_rows)(NvmlDevice, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  NvmlStructCall<NvmlRemappedRowsV2> remapped_rows_v2 = nullptr;
  NvmlStructCall<NvmlRemapHistogram> remap_histogram = nullptr;
  NvmlReturn (*retired_pages_v2)(NvmlDevice, int, unsigned*, std::uint64_t*,
                                 std::uint64_t*) = nullptr;
  NvmlReturn (*retired_pages)(NvmlDevice, int, unsigned*, std::uint64_t*) = nullptr;
  NvmlNumberCall retired_pages_pending = nullptr;
  NvmlStructCall<NvmlUnrepairableMemory> unrepairable_memory = nullptr;
  NvmlStructCall<NvmlRepairStatus> repair_status = nullptr;
  NvmlStructCall<NvmlMemoryV2> memory_v2 = nullptr;
  NvmlStructCall<NvmlMemory> memory = nullptr;

  NvmlIndexedCall link_state = nullptr;
  NvmlReturn (*link_error_counter)(NvmlDevice, unsigned, int, std::uint64_t*) = nullptr;
  NvmlReturn (*link_remote_pci)(NvmlDevice, unsigned, NvmlPciInfo*) = nullptr;
  NvmlStructCall<NvmlLinkInfoV2> link_info = nullptr;
  NvmlReturn (*field_values)(NvmlDevice, int, NvmlFieldValue*) = nullptr;
  NvmlNumberCall pcie_generation = nullptr;
  NvmlNumberCall pcie_width = nullptr;
  NvmlNumberCall pcie_max_generation = nullptr;
  NvmlNumberCall pcie_max_width = nullptr;
  NvmlNumberCall pcie_gpu_max_generation = nullptr;
  NvmlNumberCall pcie_replay_counter = nullptr;
  NvmlNumberCall pcie_speed = nullptr;
  NvmlStructCall<NvmlFabricInfoV3> fabric_info = nullptr;
  NvmlStructCall<NvmlFabricInfoV1> fabric_info_v1 = nullptr;
  NvmlReturn (*common_ancestor)(NvmlDevice, NvmlDevice, int*) = nullptr;
  NvmlReturn (*p2p_status)(NvmlDevice, NvmlDevice, int, int*) = nullptr;
  NvmlReturn (*cpu_affinity)(NvmlDevice, unsigned, unsigned long*) = nullptr;

  NvmlNumberCall persistence_mode = nullptr;
  NvmlNumberCall compute_mode = nullptr;
  NvmlPairCall mig_mode = nullptr;
  NvmlBigNumberCall clock_reasons = nullptr;
  NvmlIndexedCall clock = nullptr;
  NvmlIndexedCall max_clock = nullptr;
  NvmlIndexedCall applications_clock = nullptr;
  NvmlIndexedCall default_applications_clock = nullptr;
  NvmlStructCall<NvmlTemperature> temperature_v = nullptr;
  NvmlIndexedCall temperature = nullptr;
  NvmlIndexedCall temperature_threshold = nullptr;
  NvmlStructCall<NvmlMarginTemperature> margin_temperature = nullptr;
  NvmlNumberCall power_usage = nullptr;
  NvmlNumberCall enforced_power_limit = nullptr;
  NvmlNumberCall default_power_limit = nullptr;
  NvmlReturn (*processes)(NvmlDevice, unsigned*, NvmlProcessInfo*) = nullptr;
  NvmlReturn (*processes_v1)(NvmlDevice, unsigned*, NvmlProcessInfoV1*) = nullptr;

  NvmlReturn (*event_set_create)(NvmlEventSet*) = nullptr;
  NvmlReturn (*event_set_wait)(NvmlEventSet, NvmlEventData*, unsigned) = nullptr;
  NvmlReturn (*event_set_free)(NvmlEventSet) = nullptr;
  NvmlBigNumberCall supported_event_types = nullptr;
  NvmlReturn (*register_events)(NvmlDevice, std::uint64_t, NvmlEventSet) = nullptr;
};

// The environment may name another library, as tests do.
inline constexpr const char* nvml_library_variable = "MUSTER_NVML_LIB";
inline constexpr const char* nvml_library_default = "libnvidia-ml.so.1";

class NvmlLibrary {
 public:
  // An empty path: what the environment names, else the usual one.
  static Result<NvmlLibrary> load(std::string path = {});

  const NvmlFunctions& functions() const { return functions_; }

 private:
  struct Unload {
    void operator()(void* handle) const;
  };
  std::unique_ptr<void, Unload> handle_;
  NvmlFunctions functions_;
};

}  // namespace muster
