#include "health/nvml/reader.h"

namespace muster {

namespace {

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

}  // namespace

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

}  // namespace muster
