#include <array>
#include <chrono>

#include "health/model/catalogue_words.h"

namespace muster {

namespace gpu_catalogue {

using namespace catalogue_words;
using std::chrono::microseconds;

constexpr Phases P = static_cast<Phases>(Phase::prolog);
constexpr Phases T = static_cast<Phases>(Phase::periodic);
constexpr Phases E = static_cast<Phases>(Phase::epilog);
constexpr Phases F = static_cast<Phases>(Phase::on_failure);
constexpr Phases D = static_cast<Phases>(Phase::on_demand);
constexpr Phases Q = static_cast<Phases>(Phase::qualification);  // runs every row

constexpr microseconds cheap{100};
constexpr microseconds ms{1000};

// `nvmlDeviceGet` is left out before names of functions; `field`: nvmlDeviceGetFieldValues; `B`:
// /sys/bus/pci/devices/<bdf>. The severity is that of the usual failure; a judge may find a milder
// or a harder one.
constexpr std::array table{
    CheckSpec{"gpu.nvml_init", "nvmlInit_v2", "0 within 10 s", reboot, node, samples,
              P | T | E | F | Q, microseconds(300'000)},
    CheckSpec{"gpu.count", "Count_v2, PCI scan", "both the SKU's", reset_then_reboot, node, samples,
              P | T | E | F | Q, ms},
    CheckSpec{"gpu.identity", "UUID, Serial, PciInfo_v3", "as before", warn, node, event, P | Q,
              ms},
    CheckSpec{"gpu.lost", "all calls, B/config", "no code 15 or 16, config not all ff",
              stop_reboot_then_rma, node, event, P | T | E | F | Q, cheap},
    CheckSpec{"gpu.recovery_action", "field 230", "0", stop_reset, node, event, P | T | E | F | Q,
              ms},
    CheckSpec{"gpu.ecc_mode", "EccMode", "current = pending = the SKU's", reboot, setup, samples,
              P | Q, cheap},
    CheckSpec{"gpu.ecc_dbe", "fields 4, 6, TotalEccErrors", "no growth", stop_reset_then_rma, node,
              delta, P | T | E | F | Q, cheap},
    CheckSpec{"gpu.ecc_sbe", "MemoryErrorCounter", "DRAM <= 20000000, SRAM <= 10000", warn, node,
              samples, T | Q, cheap},
    CheckSpec{"gpu.sram_unc", "SramEccErrorStatus", "threshold not exceeded, no growth", reset,
              node, delta, P | T | E | Q, cheap},
    CheckSpec{"gpu.remap_failure", "RemappedRows, field 145", "0", rma, node, samples,
              P | T | E | Q, cheap},
    CheckSpec{"gpu.remap_pending", "RemappedRows, field 144", "0", reset, node, samples, P | E | Q,
              cheap},
    CheckSpec{"gpu.remap_count", "field 143, RowRemapperHistogram", "< 512, banks have spares", rma,
              node, samples, T | Q, cheap},
    CheckSpec{"gpu.retired_pages", "RetiredPages_v2, fields 29-31", "<= 63, none pending", rma,
              node, samples, P | Q, ms},
    CheckSpec{"gpu.unrepairable", "UnrepairableMemoryFlag_v1", "0", rma, node, samples, T | Q,
              cheap},
    CheckSpec{"gpu.repair_pending", "RepairStatus", "none", reset, node, samples, E | Q, cheap},
    CheckSpec{"gpu.xid", "nvmlEventSetWait_v2, kmsg", "none that drains", stop_reset, node, event,
              T | F | Q, cheap},
    CheckSpec{"gpu.fell_off", "kmsg", "no GPU fell off the bus", stop_reboot_then_rma, node, event,
              T | Q, cheap},
    // Never fails: it passes when somebody has reset the GPU, and then ends what called for that.
    CheckSpec{"gpu.reset", "kmsg, field 230", "the driver was loaded, or wants no reset any more",
              warn, node, event, T | Q, cheap},
    CheckSpec{"gpu.sxid", "kmsg", "none that drains", drain, node, event, T | F | Q, cheap},
    CheckSpec{"gpu.nvlink_active", "NvLinkState", "all up, as many as the SKU's", reset_then_rma,
              node, samples, P | T | E | Q, ms},
    CheckSpec{"gpu.nvlink_speed", "fields 164, 90", "the SKU's", drain, node, samples, P | Q, ms},
    CheckSpec{"gpu.nvlink_err4", "fields 38, 45, 52, 59, 161-163, NvLinkErrorCounter",
              "no growth, CRC < 100/s", warn_then_drain, node, delta, T | E | Q, ms},
    CheckSpec{"gpu.nvlink_err5", "fields 208, 215, 220, 222, 295", "no growth", warn_then_drain,
              node, delta, T | Q, ms},
    CheckSpec{"gpu.fabric", "GpuFabricInfoV", "state 3, status 0, healthy", drain_then_reboot,
              setup, samples, P | T | Q, ms},
    CheckSpec{"gpu.pcie_link", "B/current_link_width, MaxPcieLinkGeneration",
              "width and generation of the SKU", drain_then_rma, node, samples, P | D | Q, ms},
    CheckSpec{"gpu.pcie_replay", "field 94, PcieReplayCounter", "<= ceil(k x lanes) a minute", warn,
              node, delta, T | Q, cheap},
    CheckSpec{"gpu.pcie_aer", "B/aer_dev_*", "no growth", drain, node, delta, T | E | Q, cheap},
    // Power and cooling are a rack's.
    CheckSpec{"gpu.throttle", "CurrentClocksEventReasons, fields 269-271",
              "no hardware slowdown, < 1 % of the time", drain, node, samples, T | Q, cheap,
              often_shared},
    CheckSpec{"gpu.temp", "MarginTemperature, TemperatureV, field 82", "margin > 0 C", warn, node,
              samples, T | Q, cheap},
    CheckSpec{"gpu.persistence", "PersistenceMode", "the SKU's", drain, setup, samples, P | Q,
              cheap},
    CheckSpec{"gpu.modes", "MigMode, ComputeMode", "the SKU's", drain, setup, samples, P | E | Q,
              cheap},
    CheckSpec{"gpu.clocks", "MaxClockInfo, ApplicationsClock", "the SKU's +-30 MHz", drain, setup,
              samples, P | E | Q, cheap},
    CheckSpec{"gpu.power_limit", "EnforcedPowerLimit, PowerManagementDefaultLimit", "equal", drain,
              setup, samples, P | E | Q, cheap},
    CheckSpec{"gpu.procs", "ComputeRunningProcesses_v3, MemoryInfo_v2", "none, used < 1 GiB", drain,
              node, samples, P | E | Q, microseconds(4500)},
    CheckSpec{"gpu.versions", "/proc/driver/nvidia/version, SystemGetDriverVersion, VbiosVersion",
              "kernel = library; GPUs alike", reboot, setup, samples, P | Q, ms},
    CheckSpec{"gpu.inforom", "nvmlDeviceValidateInforom", "valid", rma, node, samples, P | Q, ms},
    CheckSpec{"gpu.gsp", "GspFirmwareMode", "the SKU's", drain, setup, samples, P | Q, cheap},
    CheckSpec{"gpu.devnodes", "/dev/nvidia*", "the launching user can open them", drain, setup,
              samples, P | Q, cheap},
    // Modules do not come and go, and the log tells of an invalid context once.
    CheckSpec{"gpu.peermem", "/proc/modules, kmsg", "the SKU's, no invalid context", drain, setup,
              event, P | T | Q, cheap},
    CheckSpec{"gpu.modules", "/proc/modules", "no nouveau", drain, setup, samples, P | Q, cheap},
    CheckSpec{"gpu.env", "environment of the ranks", "no injected libraries or dumps", warn, setup,
              event, P | Q, cheap},
    CheckSpec{"gpu.topo", "B/numa_node", "the SKU's", drain, setup, samples, P | Q, ms},
    CheckSpec{"gpu.dstate", "/proc/*/stat", "no nvidia process stuck in the kernel", stop_reboot,
              node, samples, T | Q, microseconds(20'000)},
};

}  // namespace gpu_catalogue

std::span<const CheckSpec> gpu_checks() {
  return gpu_catalogue::table;
}

}  // namespace muster
