#include <array>

#include "health/model/catalogue_words.h"

namespace muster {

namespace host_catalogue {

using namespace catalogue_words;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// A phase for each letter, and the qualification, which runs all.
constexpr Phases when(std::string_view letters) {
  Phases phases = static_cast<Phases>(Phase::qualification);
  for (const char letter : letters) {
    if (letter == 'P') phases = phases | static_cast<Phases>(Phase::prolog);
    if (letter == 'T') phases = phases | static_cast<Phases>(Phase::periodic);
    if (letter == 'E') phases = phases | static_cast<Phases>(Phase::epilog);
    if (letter == 'F') phases = phases | static_cast<Phases>(Phase::on_failure);
    if (letter == 'D') phases = phases | static_cast<Phases>(Phase::on_demand);
  }
  return phases;
}

constexpr microseconds quick{100};
constexpr microseconds some = milliseconds(2);
constexpr microseconds process_list = milliseconds(20);

constexpr std::array table{
    CheckSpec{"host.mem", "/proc/meminfo MemTotal", "the profile's mem_kb, within its tolerance",
              drain_then_rma, node, samples, when("P"), quick},
    CheckSpec{"host.edac", "/sys/devices/system/edac/mc/mc*/{ue,ce}_count; kmsg Hardware Error",
              "no new uncorrected error, at most 9 corrected ones a day", stop_reboot_then_rma,
              node, delta, when("TE"), quick},
    CheckSpec{"host.disk", "statvfs", "10 % and 500 MB free, 10 % of inodes", drain, node, samples,
              when("PE"), some},
    CheckSpec{"host.ro",
              "/proc/self/mountinfo; kmsg Remounting filesystem read-only, XFS shut down",
              "no file system that was mounted for writing is read-only", stop_reboot, node, event,
              when("T"), quick},
    CheckSpec{"host.nvme", "/sys/class/nvme/*/state", "all live, and as many as the profile says",
              drain_then_rma, node, samples, when("PD"), some},
    CheckSpec{"host.mounts", "/proc/self/mountinfo", "the profile's mounts are there", drain, setup,
              samples, when("P"), quick, often_shared},
    CheckSpec{"host.mount_stall", "statvfs and the first entry of each mount", "each answers",
              drain, node, samples, when("PTF"), some, often_shared},
    CheckSpec{"host.nfs_log", "kmsg nfs: server not responding, Lustre eviction", "none", warn,
              node, event, when("T"), quick},
    CheckSpec{"host.io", "kmsg I/O error, failed disk, damaged file system", "none", drain_then_rma,
              node, event, when("T"), quick},
    CheckSpec{"host.pcie", "kmsg AER fatal error", "none", drain_then_rma, node, event, when("T"),
              quick},
    // Cooling is a rack's.
    CheckSpec{"host.throttle", "kmsg processor above its temperature", "none", warn, node, event,
              when("T"), quick, often_shared},
    CheckSpec{"host.clock", "adjtimex", "synchronised, less than 50 ms from the controller's", warn,
              node, samples, when("P"), quick},
    // What processes wait for is a file server, more often than not.
    CheckSpec{"host.dstate", "/proc/*/stat", "no process in uninterruptible sleep for 5 samples",
              drain_then_reboot, node, samples, when("TE"), process_list, often_shared},
    CheckSpec{"host.hung", "kmsg hung task, lockup, rcu stall", "none", drain_then_reboot,
              node, event, when("TF"), quick, often_shared},
    CheckSpec{"host.taint", "/proc/sys/kernel/tainted", "no machine check, oops, lockup or warning",
              reboot, node, event, when("PT"), quick},
    CheckSpec{"host.oops", "kmsg Oops, BUG, general protection; pstore", "none", reboot, node,
              event, when("TF"), quick},
    CheckSpec{"host.oom", "kmsg Out of memory: Killed", "none", warn, user, event, when("F"),
              quick},
    CheckSpec{"host.shm", "statvfs /dev/shm; its nccl-*, torch_*, sem.* by owner",
              "the profile's size, nothing of users that have no job", drain, setup, samples,
              when("PE"), some},
    CheckSpec{"host.hugepages", "/proc/meminfo; /sys/kernel/mm/transparent_hugepage/enabled",
              "as the profile says", drain, setup, samples, when("P"), quick},
    CheckSpec{"host.rlimit", "getrlimit", "locked memory unlimited, 65536 files", drain, setup,
              samples, when("P"), quick},
    CheckSpec{"host.cpu", "/sys/devices/system/cpu", "as the profile says", drain, setup, samples,
              when("P"), some},
    CheckSpec{"host.numa", "/sys/devices/system/node; /proc/sys/kernel/numa_balancing",
              "as the profile says", drain, setup, samples, when("P"), quick},
    CheckSpec{"host.leftovers", "/proc/*/{stat,environ}", "no process of a job that ended", drain,
              node, samples, when("PE"), process_list},
    CheckSpec{"host.swap", "/proc/meminfo SwapTotal", "the profile's swap_kb", drain, setup,
              samples, when("P"), quick},
    CheckSpec{"host.reboots", "/proc/sys/kernel/random/boot_id", "fewer than 3 in 24 h", rma, node,
              event, when("P"), quick},
    CheckSpec{"host.versions", "kernel, OFED, NCCL, libcuda, binary hash", "those of the majority",
              drain, setup, samples, when("P"), some, often_shared},
    CheckSpec{"host.net", "/sys/class/net/*/mtu, peers' names, the master port",
              "peers are known by name, the port is free, the MTU is the majority's", drain, setup,
              samples, when("P"), milliseconds(5)},
    CheckSpec{"host.agent", "latest heartbeat", "at most 15 s old", drain, node, samples, when("T"),
              quick},
    CheckSpec{"host.helper", "the NVML helper's process", "none that was killed and stays", drain,
              node, samples, when("T"), quick},
};

}  // namespace host_catalogue

std::span<const CheckSpec> host_checks() {
  return host_catalogue::table;
}

}  // namespace muster
