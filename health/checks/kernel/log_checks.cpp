#include "health/model/check_words.h"

namespace muster {

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
