#include "health/checks/host/host_checks.h"

#include <iterator>

#include "health/checks/host/kernel.h"
#include "health/checks/host/memory.h"
#include "health/checks/host/mounts.h"
#include "health/checks/host/processors.h"
#include "health/checks/host/storage.h"

namespace muster {

namespace {

void append(std::vector<HealthFinding>& findings, std::vector<HealthFinding> more) {
  findings.insert(findings.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
}

void append(std::vector<HealthFinding>& findings, std::optional<HealthFinding> finding) {
  if (finding) findings.push_back(*std::move(finding));
}

}  // namespace

std::vector<std::string> host_sources(const HealthProfile& profile) {
  std::vector<std::string> sources{
      "/proc/sys/kernel/random/boot_id",
      "/proc/sys/kernel/osrelease",
      "/proc/sys/kernel/tainted",
      "/proc/sys/kernel/numa_balancing",
      "/proc/meminfo",
      "/proc/self/mountinfo",
      "adjtimex:",
      "rlimit:nofile",
      "rlimit:memlock",
      "/sys/kernel/mm/transparent_hugepage/enabled",
      "/sys/devices/system/cpu/online",
      "/sys/devices/system/cpu/intel_pstate/no_turbo",
      "/sys/devices/system/cpu/cpufreq/boost",
      "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
      "/sys/devices/system/node/online",
      "/sys/devices/system/edac/mc/mc*/ue_count",
      "/sys/devices/system/edac/mc/mc*/ce_count",
      "/sys/module/mlx5_core/version",
      "/sys/class/net/*/operstate",
      "/sys/class/net/*/mtu",
      "/usr/lib/x86_64-linux-gnu/libcuda.so.1@",
      "/usr/lib/x86_64-linux-gnu/libnccl.so.2@",
      "/usr/lib64/libcuda.so.1@",
      "/usr/lib64/libnccl.so.2@",
      "/usr/lib/aarch64-linux-gnu/libcuda.so.1@",
      "/usr/lib/aarch64-linux-gnu/libnccl.so.2@",
      "statvfs:/dev/shm",
      "stat:/dev/shm/nccl-*",
      "stat:/dev/shm/torch_*",
      "stat:/dev/shm/sem.*",
      "/sys/class/nvme/*/transport",
      "/sys/class/nvme/*/state",
  };
  for (const std::string& disk : profile.host.disks) sources.push_back("statvfs:" + disk);
  for (const std::string& mount : profile.host.mounts) {
    sources.push_back("statvfs:" + mount);
    sources.push_back(mount);
  }
  return sources;
}

std::vector<HealthFinding> judge_host(const SourceFiles& files, const HealthProfile& profile,
                                      const HostSituation& situation) {
  std::vector<HealthFinding> findings;
  append(findings, judge_memory(files, profile));
  append(findings, judge_swap(files, profile));
  append(findings, judge_hugepages(files, profile));
  append(findings, judge_disks(files, profile));
  append(findings, judge_read_only(files, profile));
  append(findings, judge_nvmes(files, profile));
  append(findings, judge_mounts(files, profile));
  append(findings, judge_mount_stall(files, profile));
  append(findings, judge_clock(files, profile, situation.clock_offset));
  append(findings, judge_taint(files, profile));
  append(findings, judge_shared_memory(files, profile, situation.ended_uids));
  append(findings, judge_limits(files, profile));
  append(findings, judge_processors(files, profile));
  append(findings, judge_numa(files, profile));
  return findings;
}

}  // namespace muster
