#include "health/kernel/kernel_rules.h"

#include <algorithm>
#include <array>

#include "health/mentions.h"

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

bool has_invalid_peermem_context(std::string_view text) {
  return mentions(text, "detected invalid context");
}

bool is_mlx5_fatal(std::string_view text) {
  return mentions(text, "mlx5") &&
         holds_any(text, "health compromised", "leak of a command resource",
                   "unrecoverable hardware error");
}

bool is_mlx5_warning(std::string_view text) {
  return mentions(text, "mlx5") && holds_any(text, "insufficient power", "High Temperature",
                                             "Cable unplugged", "NETDEV WATCHDOG");
}

// Lines that the kernel itself begins so: a program may call itself "BUG:" and then crash.
template <typename... Begin>
bool begins_with_any(std::string_view text, Begin... begins) {
  return (text.starts_with(begins) || ...);
}

bool is_stalled_rcu(std::string_view text) {
  return begins_with_any(text, "rcu", "INFO: rcu") && holds_word(text, "stall");
}

bool is_hung(std::string_view text) {
  const bool is_lockup =
      begins_with_any(text, "watchdog: BUG: soft", "BUG: soft", "NMI watchdog") &&
      mentions(text, "soft lockup");
  return is_lockup || mentions(text, "blocked for more than") || is_stalled_rcu(text);
}

bool is_oops(std::string_view text) {
  return begins_with_any(text, "BUG:", "watchdog: BUG:", "Oops", "Internal error: Oops",
                         "general protection", "kernel BUG at");
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
  return is_memory_controller || is_hardware_error;
}

bool is_hardware_error(std::string_view text) {
  return mentions(text, "Hardware Error") || (mentions(text, "EDAC") && mentions(text, " CE "));
}

bool is_silent_nfs(std::string_view text) {
  const std::size_t server = text.find("nfs: server ");
  return server != text.npos && mentions(text.substr(server), " not responding");
}

bool is_remounted_read_only(std::string_view text) {
  return mentions(text, "Remounting filesystem read-only");
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

constexpr CheckSeverity warn = only_warn;
constexpr CheckSeverity stop_reboot_rma{Remedy::reboot, Remedy::rma, true};

// Hung tasks come before oopses: a soft lockup's line begins with "BUG:" too.
constexpr std::array rules{
    KernelRule{"gpu.fell_off",
               LineSubject::gpu,
               fell_off,
               stop_reboot_rma,
               FaultClass::node,
               "on the bus",
               {}},
    KernelRule{"gpu.peermem",
               LineSubject::node,
               has_invalid_peermem_context,
               warn,
               FaultClass::setup,
               "no invalid context",
               {}},
    KernelRule{"ib.mlx5_fatal",
               LineSubject::hca,
               is_mlx5_fatal,
               stop_reboot_rma,
               FaultClass::node,
               "none",
               {}},
    KernelRule{
        "ib.mlx5_warn", LineSubject::hca, is_mlx5_warning, warn, FaultClass::node, "none", {}},
    // What held the tasks up may pass: a file server that comes back.
    KernelRule{"host.hung",
               LineSubject::node,
               is_hung,
               {Remedy::drain, Remedy::reboot, false},
               FaultClass::node,
               "none",
               std::chrono::minutes(10)},
    KernelRule{"host.oops",
               LineSubject::node,
               is_oops,
               {Remedy::reboot, {}, false},
               FaultClass::node,
               "none",
               {}},
    KernelRule{"host.oom", LineSubject::node, is_out_of_memory, warn, FaultClass::user, "none", {}},
    KernelRule{"host.edac",
               LineSubject::node,
               is_uncorrected,
               stop_reboot_rma,
               FaultClass::node,
               "none",
               {}},
    KernelRule{
        "host.edac", LineSubject::node, is_hardware_error, warn, FaultClass::node, "none", {}},
    KernelRule{
        "host.nfs_log", LineSubject::node, is_silent_nfs, warn, FaultClass::infra, "none", {}},
    KernelRule{"host.ro",
               LineSubject::node,
               is_remounted_read_only,
               {Remedy::reboot, {}, true},
               FaultClass::node,
               "none",
               {}},
};

}  // namespace

std::span<const KernelRule> kernel_rules() {
  return rules;
}

const KernelRule* find_kernel_rule(std::string_view text) {
  if (is_command_line(text) || is_about_program(text)) return nullptr;
  const auto rule =
      std::ranges::find_if(rules, [&](const KernelRule& one) { return one.fits(text); });
  return rule == rules.end() ? nullptr : &*rule;
}

std::optional<bool> parse_link_change(std::string_view text) {
  const std::size_t driver = text.find("mlx5_core ");
  if (driver == text.npos) return std::nullopt;
  if (mentions(text.substr(driver), "Link down")) return false;
  if (mentions(text.substr(driver), "Link up")) return true;
  return std::nullopt;
}

bool is_driver_load(std::string_view text) {
  return text.starts_with("NVRM: loading NVIDIA UNIX");
}

bool is_refused_register(std::string_view text) {
  return mentions(text, "mlx5") && mentions(text, "ACCESS_REG");
}

}  // namespace muster
