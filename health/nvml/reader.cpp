#include "health/nvml/reader.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
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

constexpr unsigned links_max = 18;  // of the library; later GPUs have more, told as fields alone

// What the catalogue names, each without a scope.
constexpr std::array<unsigned, 41> gpu_fields{1,   2,   3,   4,   5,   6,   29,  30,  31,  38,  45,
                                              52,  59,  82,  90,  91,  94,  95,  142, 143, 144, 145,
                                              169, 170, 171, 173, 179, 180, 185, 186, 193, 194, 195,
                                              196, 230, 269, 270, 271, 301, 302, 165};
// Scope: the link. 208 to 222 and 295 from the fifth generation on.
constexpr std::array<unsigned, 9> link_fields{161, 162, 163, 164, 208, 214, 215, 220, 222};
constexpr unsigned link_field_plr = 295;
constexpr unsigned field_link_count = 91;

std::string value_text(const NvmlFieldValue& field) {
  switch (field.type) {
    case nvml_type_double:
      return std::to_string(field.value.real);
    case nvml_type_uint32:
      return std::to_string(field.value.uint32);
    case nvml_type_int32:
      return std::to_string(field.value.int32);
    case nvml_type_int64:
      return std::to_string(field.value.int64);
    case nvml_type_uint16:
      return std::to_string(field.value.uint16);
    default:
      return std::to_string(field.value.uint64);
  }
}

void ask_all(const NvmlGpu& gpu, std::vector<NvmlFieldValue>& fields, bool is_scoped) {
  const NvmlReturn called =
      gpu.call("nvmlDeviceGetFieldValues", static_cast<int>(fields.size()), fields.data());
  for (const NvmlFieldValue& field : fields) {
    const std::string scope = is_scoped ? "." + std::to_string(field.scope) : "";
    const NvmlReturn rc = called == nvml_success ? field.rc : called;
    gpu.asker.tell("field." + std::to_string(field.field) + scope, rc, value_text(field));
  }
}

NvmlFieldValue question(unsigned field, unsigned scope) {
  NvmlFieldValue value{};
  value.field = field;
  value.scope = scope;
  return value;
}

unsigned link_count(const NvmlGpu& gpu) {
  NvmlFieldValue field = question(field_link_count, 0);
  const NvmlReturn rc = gpu.call("nvmlDeviceGetFieldValues", 1, &field);
  // Drivers that do not tell refuse a link that is none.
  if (rc != nvml_success || field.rc != nvml_success) return links_max;
  return std::min(field.value.uint32, links_max);
}

// Whether the GPU has such a link.
bool ask_link(const NvmlGpu& gpu, unsigned link) {
  constexpr const char* counters[] = {"replay", "recovery", "crc_flit", "crc_data"};
  const std::string key = "link." + std::to_string(link) + ".";
  unsigned state = 0;
  NvmlReturn rc = gpu.call("nvmlDeviceGetNvLinkState", link, &state);
  if (rc == nvml_invalid_argument) return false;
  gpu.asker.report_number(key + "state", rc, state);
  if (rc != nvml_success) return false;
  NvmlPciInfo remote{};
  rc = gpu.call({"nvmlDeviceGetNvLinkRemotePciInfo", "nvmlDeviceGetNvLinkRemotePciInfo_v2"}, link,
                &remote);
  remote.bus_id[sizeof remote.bus_id - 1] = '\0';
  gpu.asker.tell(key + "remote", rc, remote.bus_id);
  for (int counter = 0; counter < 4; ++counter) {
    gpu.ask_number<std::uint64_t>(key + counters[counter], "nvmlDeviceGetNvLinkErrorCounter", link,
                                  counter);
  }
  return true;
}

void ask_encryption(const NvmlGpu& gpu) {
  NvmlLinkInfoV2 info{};
  NvmlReturn rc = nvml_version_mismatch;
  for (const unsigned version : {nvml_link_info_v2, nvml_link_info_v1}) {
    if (rc != nvml_version_mismatch) break;
    info.version = version;
    rc = gpu.call("nvmlDeviceGetNvLinkInfo", &info);
  }
  gpu.asker.report_number("link.encrypted", rc, info.is_encrypted);
}

void ask_pcie(const NvmlGpu& gpu) {
  constexpr std::pair<const char*, const char*> questions[] = {
      {"pcie.gen", "nvmlDeviceGetCurrPcieLinkGeneration"},
      {"pcie.width", "nvmlDeviceGetCurrPcieLinkWidth"},
      {"pcie.max_gen", "nvmlDeviceGetMaxPcieLinkGeneration"},
      {"pcie.max_width", "nvmlDeviceGetMaxPcieLinkWidth"},
      {"pcie.gpu_max_gen", "nvmlDeviceGetGpuMaxPcieLinkGeneration"},
      {"pcie.replay", "nvmlDeviceGetPcieReplayCounter"},
      {"pcie.speed", "nvmlDeviceGetPcieSpeed"},
  };
  for (const auto& [key, name] : questions) gpu.ask_number(key, name);
}

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

struct FabricAnswer {
  NvmlReturn rc;
  unsigned version;
  NvmlFabricInfoV3 info;
};

FabricAnswer newest_fabric_info(const NvmlGpu& gpu) {
  FabricAnswer answer{nvml_version_mismatch, 0, {}};
  for (const unsigned version : {3u, 2u}) {
    if (answer.rc != nvml_version_mismatch) break;
    answer.version = version;
    answer.info.version = version == 3 ? nvml_fabric_info_v3 : nvml_fabric_info_v2;
    answer.rc = gpu.call("nvmlDeviceGetGpuFabricInfoV", &answer.info);
  }
  if (answer.rc != nvml_function_not_found && answer.rc != nvml_version_mismatch) return answer;
  NvmlFabricInfoV1 old{};
  answer.version = 1;
  answer.rc = gpu.call("nvmlDeviceGetGpuFabricInfo", &old);
  std::copy(std::begin(old.cluster), std::end(old.cluster), std::begin(answer.info.cluster));
  answer.info.status = old.status;
  answer.info.clique = old.clique;
  answer.info.state = old.state;
  return answer;
}

constexpr int error_corrected = 0;
constexpr int error_uncorrected = 1;
constexpr int counter_volatile = 0;
constexpr int counter_aggregate = 1;
constexpr int location_dram = 2;
constexpr int location_sram = 7;
constexpr int cause_single_bit = 0;
constexpr int cause_double_bit = 1;

void ask_ecc_counter(const NvmlGpu& gpu, int error, int counter) {
  const std::string suffix = std::string(error == error_corrected ? "cor." : "unc.") +
                             (counter == counter_volatile ? "volatile" : "aggregate");
  gpu.ask_number<std::uint64_t>("ecc." + suffix, "nvmlDeviceGetTotalEccErrors", error, counter);
  for (const int location : {location_dram, location_sram}) {
    gpu.ask_number<std::uint64_t>((location == location_dram ? "ecc.dram." : "ecc.sram.") + suffix,
                                  "nvmlDeviceGetMemoryErrorCounter", error, counter, location);
  }
}

void ask_sram(const NvmlGpu& gpu) {
  NvmlSramErrors errors{};
  errors.version = nvml_sram_errors_v1;
  const NvmlReturn rc = gpu.call("nvmlDeviceGetSramEccErrorStatus", &errors);
  gpu.asker.report_number("sram.parity.aggregate", rc, errors.aggregate_parity);
  gpu.asker.report_number("sram.secded.aggregate", rc, errors.aggregate_secded);
  gpu.asker.report_number("sram.parity.volatile", rc, errors.volatile_parity);
  gpu.asker.report_number("sram.secded.volatile", rc, errors.volatile_secded);
  gpu.asker.report_number("sram.exceeded", rc, errors.threshold_exceeded);
}

// The call with room for nothing says how many there are.
void ask_retired(const NvmlGpu& gpu, const char* key, int cause) {
  constexpr const char* name = "nvmlDeviceGetRetiredPages";
  const NvmlCall newer{name, "nvmlDeviceGetRetiredPages_v2"};
  constexpr std::uint64_t* nowhere = nullptr;
  unsigned count = 0;
  const NvmlReturn rc = gpu.asker.has(newer) ? gpu.call(newer, cause, &count, nowhere, nowhere)
                                             : gpu.call(name, cause, &count, nowhere);
  gpu.asker.report_number(key, rc == nvml_insufficient_size ? nvml_success : rc, count);
}

void ask_remapped(const NvmlGpu& gpu) {
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned pending = 0;
  unsigned failure = 0;
  NvmlReturn rc =
      gpu.call("nvmlDeviceGetRemappedRows", &corrected, &uncorrected, &pending, &failure);
  gpu.asker.report_number("remap.corr", rc, corrected);
  gpu.asker.report_number("remap.unc", rc, uncorrected);
  gpu.asker.report_number("remap.pending", rc, pending);
  gpu.asker.report_number("remap.failure", rc, failure);
  NvmlRemappedRowsV2 rows{};
  rc = gpu.call("nvmlDeviceGetRemappedRows_v2", &rows);
  gpu.asker.report_number("remap.inactive_corr", rc, rows.corrected_inactive);
  gpu.asker.report_number("remap.inactive_unc", rc, rows.uncorrected_inactive);
}

void ask_remap_banks(const NvmlGpu& gpu) {
  NvmlRemapHistogram banks{};
  const NvmlReturn rc = gpu.call("nvmlDeviceGetRowRemapperHistogram", &banks);
  gpu.asker.report_number("remap.banks.max", rc, banks.max);
  gpu.asker.report_number("remap.banks.high", rc, banks.high);
  gpu.asker.report_number("remap.banks.partial", rc, banks.partial);
  gpu.asker.report_number("remap.banks.low", rc, banks.low);
  gpu.asker.report_number("remap.banks.none", rc, banks.none);
}

void ask_repairs(const NvmlGpu& gpu) {
  NvmlUnrepairableMemory memory{};
  NvmlReturn rc = gpu.call("nvmlDeviceGetUnrepairableMemoryFlag_v1", &memory);
  gpu.asker.report_number("unrepairable", rc, memory.is_unrepairable);
  NvmlRepairStatus repair{};
  repair.version = nvml_repair_v1;
  rc = gpu.call("nvmlDeviceGetRepairStatus", &repair);
  gpu.asker.report_number("repair.channel", rc, repair.channel_pending);
  gpu.asker.report_number("repair.tpc", rc, repair.tpc_pending);
}

// The newer call does not count what the driver keeps for itself as used.
void ask_use(const NvmlGpu& gpu) {
  NvmlMemoryV2 memory{};
  memory.version = nvml_memory_v2;
  NvmlReturn rc = gpu.call("nvmlDeviceGetMemoryInfo_v2", &memory);
  gpu.asker.report_number("memory.reserved", rc, memory.reserved);
  if (rc == nvml_function_not_found || rc == nvml_version_mismatch) {
    NvmlMemory old{};
    rc = gpu.call("nvmlDeviceGetMemoryInfo", &old);
    memory.total = old.total;
    memory.used = old.used;
  }
  gpu.asker.report_number("memory.total", rc, memory.total);
  gpu.asker.report_number("memory.used", rc, memory.used);
}

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

void ask_fields(const NvmlGpu& gpu) {
  std::vector<NvmlFieldValue> fields;
  for (const unsigned field : gpu_fields) fields.push_back(question(field, 0));
  ask_all(gpu, fields, false);
}

void ask_links(const NvmlGpu& gpu) {
  ask_pcie(gpu);
  const unsigned count = link_count(gpu);
  std::vector<NvmlFieldValue> fields;
  for (unsigned link = 0; link < count && ask_link(gpu, link); ++link) {
    for (const unsigned field : link_fields) fields.push_back(question(field, link));
    fields.push_back(question(link_field_plr, link));
  }
  if (!fields.empty()) ask_all(gpu, fields, true);
  ask_encryption(gpu);
}

void ask_fabric(const NvmlGpu& gpu) {
  const FabricAnswer answer = newest_fabric_info(gpu);
  const NvmlFabricInfoV3& info = answer.info;
  gpu.asker.report_number("fabric.state", answer.rc, info.state);
  gpu.asker.report_number("fabric.status", answer.rc, info.status);
  gpu.asker.report_number("fabric.clique", answer.rc, info.clique);
  gpu.asker.tell("fabric.cluster", answer.rc, hexadecimal(info.cluster, sizeof info.cluster));
  // What an older struct does not hold is not told.
  if (answer.version >= 2) gpu.asker.report_number("fabric.mask", answer.rc, info.health_mask);
  if (answer.version >= 3)
    gpu.asker.report_number("fabric.summary", answer.rc, info.health_summary);
}

void ask_memory(const NvmlGpu& gpu) {
  gpu.ask_pair("ecc.current", "ecc.pending", "nvmlDeviceGetEccMode");
  for (const int error : {error_corrected, error_uncorrected}) {
    for (const int counter : {counter_volatile, counter_aggregate})
      ask_ecc_counter(gpu, error, counter);
  }
  ask_sram(gpu);
  ask_use(gpu);
}

void ask_row_repairs(const NvmlGpu& gpu) {
  ask_remapped(gpu);
  ask_remap_banks(gpu);
  ask_retired(gpu, "retired.sbe", cause_single_bit);
  ask_retired(gpu, "retired.dbe", cause_double_bit);
  gpu.ask_number("retired.pending", "nvmlDeviceGetRetiredPagesPendingStatus");
  ask_repairs(gpu);
}

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
