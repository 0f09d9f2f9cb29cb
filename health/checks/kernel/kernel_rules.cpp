#include "health/checks/kernel/kernel_rules.h"

#include <algorithm>
#include <string>

#include "health/model/check_words.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

template <typename... Part>
bool holds_any(std::string_view text, Part... parts) {
  return (mentions(text, parts) || ...);
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Not as the end of a longer word: "stall" but not "install".
bool holds_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    if (at == 0 || !is_letter(text[at - 1])) return true;
  }
  return false;
}

bool fell_off(std::string_view text) {
  return mentions(text, "fallen off the bus");
}

bool is_of_driver(std::string_view text) {
  return mentions(text, "NVRM: ");
}

bool failed_to_initialise(std::string_view text) {
  return is_of_driver(text) && mentions(text, "RmInitAdapter failed");
}

bool says_reset_required(std::string_view text) {
  return is_of_driver(text) && mentions(text, "[NV_ERR_RESET_REQUIRED]");
}

// The driver goes on trying, and hangs whoever asks for the links.
bool lost_nvlink_peers(std::string_view text) {
  return is_of_driver(text) &&
         holds_any(text, "postRxDetLinkMask failed", "Failed to update Rx Detect Link mask");
}

bool has_invalid_peermem_context(std::string_view text) {
  return mentions(text, "detected invalid context");
}

bool is_mlx5_fatal(std::string_view text) {
  if (!mentions(text, "mlx5")) return false;
  const std::string lower = lower_case(text);
  return holds_any(lower, "health compromised", "leak of a command resource",
                   "unrecoverable hardware error", "firmware internal error",
                   "health recovery flow aborted") ||
         (mentions(lower, "fatal error") && !mentions(lower, "non-fatal error"));
}

bool is_mlx5_warning(std::string_view text) {
  if (!mentions(text, "mlx5")) return false;
  return holds_any(lower_case(text), "insufficient power", "power budget exceeded",
                   "insufficient/unadvertised power", "high temperature", "cable unplugged",
                   "netdev watchdog");
}

// Lines that the kernel itself begins so: a program may call itself "BUG:" and then crash.
template <typename... Begin>
bool begins_with_any(std::string_view text, Begin... begins) {
  return (text.starts_with(begins) || ...);
}

// Corrected and non-fatal ones are counted by the device.
bool is_fatal_on_pcie(std::string_view text) {
  return holds_any(text, "Uncorrected (Fatal)", "Uncorrectable (Fatal)") &&
         holds_any(text, "AER: ", "PCIe Bus Error: ");
}

bool is_stalled_rcu(std::string_view text) {
  return begins_with_any(text, "rcu", "INFO: rcu") && holds_word(text, "stall");
}

bool is_hung(std::string_view text) {
  const bool is_lockup = begins_with_any(text, "watchdog: ", "BUG: soft", "NMI watchdog") &&
                         holds_any(text, "soft lockup", "detected hard LOCKUP");
  return is_lockup || mentions(text, "blocked for more than") || is_stalled_rcu(text);
}

bool is_oops(std::string_view text) {
  return begins_with_any(text, "BUG:", "watchdog: BUG:", "Oops",
                         "Internal error: ", "general protection", "kernel BUG at",
                         "Unable to handle kernel ");
}

bool is_out_of_memory(std::string_view text) {
  return holds_any(text, "Out of memory: Kill", "emory cgroup out of memory: Kill");
}

// An error that memory or the processor could not correct.
bool is_uncorrected(std::string_view text) {
  const bool is_memory_controller = mentions(text, "EDAC") && mentions(text, " UE ");
  const bool is_hardware_error =
      mentions(text, "Hardware Error") &&
      holds_any(text, "ncorrected", "event severity: fatal", "Machine Check Exception");
  return is_memory_controller || is_hardware_error || text.starts_with("Memory failure: ") ||
         mentions(text, "Uncorrected hardware memory error in user-access");
}

bool is_hardware_error(std::string_view text) {
  return mentions(text, "Hardware Error") || (mentions(text, "EDAC") && mentions(text, " CE "));
}

bool lost_file_server(std::string_view text) {
  const std::size_t server = text.find("nfs: server ");
  const bool is_nfs = server != text.npos && mentions(text.substr(server), " not responding");
  return is_nfs || (text.starts_with("Lustre") && mentions(text, "This client was evicted by"));
}

// XFS lets go of a disk that it no longer trusts, unless a person told it to.
bool is_shut_down(std::string_view text) {
  if (!text.starts_with("XFS (")) return false;
  const std::string lower = lower_case(text);
  return !mentions(lower, "user initiated") &&
         holds_any(lower, "log i/o error", "has been shut down due to", "shutting down filesystem");
}

bool is_read_only(std::string_view text) {
  return mentions(text, "Remounting filesystem read-only") || is_shut_down(text);
}

// Drives without a medium, and what a board's controller pretends to be one: they fail when asked.
bool is_of_empty_drive(std::string_view text) {
  return holds_any(text, "dev sr", "dev fd", "dev zram");
}

bool is_damaged(std::string_view text) {
  return text.starts_with("EXT4-fs error (device ");
}

bool is_failed_disk(std::string_view text) {
  const bool is_medium = !is_of_empty_drive(text) &&
                         holds_any(text, "critical medium error, dev ", "Buffer I/O error on dev");
  const bool is_member = text.starts_with("md/") && mentions(text, "Disk failure on ");
  const bool is_dead =
      text.starts_with("nvme nvme") &&
      holds_any(text, "Device not ready; aborting", "Removing after probe failure",
                "Disabling device after reset failure", "controller is down; will reset");
  return is_medium || is_member || is_dead;
}

// One that came late without an interrupt was done all the same.
bool is_slow_disk(std::string_view text) {
  return text.starts_with("nvme nvme") &&
         holds_any(text, "timeout, aborting", "timeout, reset controller",
                   "timeout, disable controller");
}

bool is_throttled(std::string_view text) {
  return mentions(text, "above threshold") &&
         holds_any(text, "clock is throttled", "clock throttled");
}

// The parameters that the kernel was started with name what it may do, not what happened.
bool is_command_line(std::string_view text) {
  return mentions(text.substr(0, 32), "ommand line");
}

// Of a program that crashed, under the name that it gave itself.
bool is_about_program(std::string_view text) {
  return text.starts_with("traps: ") || mentions(text, "]: segfault at ") ||
         mentions(text, "bad frame in ");
}

}  // namespace

std::span<const KernelRule> kernel_rules() {
  using namespace check_words;
  using enum LineSubject;
  constexpr FaultClass of_node = FaultClass::node;
  // What held tasks up may pass: a file server that comes back.
  constexpr std::chrono::minutes hung_for{10};
  // Hung tasks come before oopses: a soft lockup's line begins with "BUG:" too.
  // clang-format off
  static const KernelRule table[] = {
    {"gpu.fell_off", gpu, fell_off, stop_reboot_then_rma, of_node, "on the bus", {}},
    {"gpu.lost", gpu, failed_to_initialise, reboot_then_rma, of_node, "initialised", {}},
    {"gpu.recovery_action", gpu, says_reset_required, stop_reset, of_node, "none", {}},
    {"gpu.nvlink_active", gpu, lost_nvlink_peers, reboot, of_node, "peers found", {}},
    {"gpu.peermem", node, has_invalid_peermem_context, warn, setup, "no invalid context", {}},
    {"ib.mlx5_fatal", hca, is_mlx5_fatal, stop_reboot_then_rma, of_node, "none", {}},
    {"ib.mlx5_warn", hca, is_mlx5_warning, warn, of_node, "none", {}},
    {"host.pcie", device, is_fatal_on_pcie, drain_then_rma, of_node, "none", {}},
    {"host.hung", node, is_hung, drain_then_reboot, of_node, "none", hung_for},
    {"host.oops", node, is_oops, reboot, of_node, "none", {}},
    {"host.oom", node, is_out_of_memory, warn, user, "none", {}},
    {"host.edac", node, is_uncorrected, stop_reboot_then_rma, of_node, "none", {}},
    {"host.edac", node, is_hardware_error, warn, of_node, "none", {}},
    {"host.nfs_log", node, lost_file_server, warn, infra, "none", {}},
    {"host.ro", node, is_read_only, stop_reboot, of_node, "none", {}},
    {"host.io", node, is_damaged, drain_then_reboot, of_node, "none", {}},
    {"host.io", node, is_failed_disk, drain_then_rma, of_node, "none", {}},
    {"host.io", node, is_slow_disk, warn, of_node, "none", {}},
    {"host.throttle", node, is_throttled, warn, of_node, "none", {}},
  };
  // clang-format on
  return table;
}

const KernelRule* find_kernel_rule(std::string_view text) {
  if (is_command_line(text) || is_about_program(text)) return nullptr;
  const auto rule =
      std::ranges::find_if(kernel_rules(), [&](const KernelRule& one) { return one.fits(text); });
  return rule == kernel_rules().end() ? nullptr : &*rule;
}

std::optional<bool> parse_link_change(std::string_view text) {
  const std::size_t driver = text.find("mlx5_core ");
  if (driver == text.npos) return std::nullopt;
  if (mentions(text.substr(driver), "Link down")) return false;
  if (mentions(text.substr(driver), "Link up")) return true;
  return std::nullopt;
}

bool is_header_of_old_records(std::string_view text) {
  return text.starts_with("BERT: Error records from previous boot");
}

// Those of this boot have a number or a name before the bracket.
bool is_line_of_old_records(std::string_view text) {
  return text.starts_with("[Hardware Error]:");
}

bool is_driver_load(std::string_view text) {
  return text.starts_with("NVRM: loading NVIDIA UNIX");
}

bool is_refused_register(std::string_view text) {
  return mentions(text, "mlx5") && mentions(text, "ACCESS_REG");
}

// What the kernel's log alone tells; kernel_rules and xid_table judge its lines, as KernelWatch
// reads them.
std::span<const CheckSpec> kernel_log_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "gpu.xid", .source = "nvmlEventSetWait_v2, kmsg", .says = "none that drains",
     .severity = stop_reset, .believe = event, .phases = when("TF"), .group = gpu,
     .is_certain = said_by_hardware},
    {.id = "gpu.fell_off", .source = "kmsg", .says = "no GPU fell off the bus",
     .severity = stop_reboot_then_rma, .believe = event, .phases = when("T"),
     .group = gpu, .is_certain = said_by_hardware},
    // Never fails: it passes when somebody has reset the GPU, and then ends what called for that.
    {.id = "gpu.reset", .source = "kmsg, field 230",
     .says = "the driver was loaded, or wants no reset any more", .believe = event,
     .phases = when("T"), .group = gpu},
    {.id = "gpu.sxid", .source = "kmsg", .says = "none that drains", .severity = drain,
     .believe = event, .phases = when("TF"), .group = gpu, .is_certain = said_by_hardware},
    {.id = "ib.mlx5_fatal", .source = "kmsg", .says = "none",
     .severity = stop_reboot_then_rma, .believe = event, .phases = when("T"),
     .cost = 1us, .group = infiniband_state, .is_certain = said_by_hardware},
    {.id = "ib.mlx5_warn", .source = "kmsg", .says = "none", .believe = event, .phases = when("T"),
     .cost = 1us, .group = infiniband_state},
    {.id = "host.nfs_log", .source = "kmsg nfs: server not responding, Lustre eviction",
     .says = "none", .believe = event, .phases = when("T"), .group = host},
    {.id = "host.io", .source = "kmsg I/O error, failed disk, damaged file system", .says = "none",
     .severity = drain_then_rma, .believe = event, .phases = when("T"), .group = host},
    {.id = "host.pcie", .source = "kmsg AER fatal error", .says = "none",
     .severity = drain_then_rma, .believe = event, .phases = when("T"), .group = host},
    // Cooling is a rack's.
    {.id = "host.throttle", .source = "kmsg processor above its temperature", .says = "none",
     .believe = event, .phases = when("T"), .is_often_shared = true, .group = host},
    {.id = "host.hung", .source = "kmsg hung task, lockup, rcu stall", .says = "none",
     .severity = drain_then_reboot, .believe = event, .phases = when("TF"),
     .is_often_shared = true, .group = host},
    {.id = "host.oops", .source = "kmsg Oops, BUG, general protection; pstore", .says = "none",
     .severity = reboot, .believe = event, .phases = when("TF"), .group = host},
    {.id = "host.oom", .source = "kmsg Out of memory: Killed", .says = "none", .fault = user,
     .believe = event, .phases = when("F"), .group = host},
  };
  // clang-format on
  return all;
}

}  // namespace muster
