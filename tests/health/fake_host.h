// A healthy host, as its files: synthetic, in the forms of Linux 5.15 and 6.1. Tests spoil one
// thing of it. It can be written to a directory, which read_files then reads as a root.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

inline HealthProfile fake_profile() {
  HealthProfile profile;
  profile.name = "fake";
  profile.host.mem_kb = 1961032704;
  profile.host.swap_kb = 0;
  profile.host.nofile = 65536;
  profile.host.cpus = 96;
  profile.host.numa_nodes = 2;
  profile.host.nvmes = 2;
  profile.host.shm_kb = 980516352;
  profile.host.hugepages = 0;
  profile.host.transparent_hugepages = "madvise";
  profile.host.governor = "performance";
  profile.host.turbo = true;
  profile.host.numa_balancing = false;
  profile.host.mounts = {"/data", "/share d"};
  return profile;
}

inline std::string space_text(std::int64_t bytes, std::int64_t available) {
  return "bytes " + std::to_string(bytes) + "\nbytes_available " + std::to_string(available) +
         "\ninodes 1000000\ninodes_available 900000\nread_only 0\n";
}

inline std::string stat_text(int pid, const std::string& name, char state, int cpu_ticks,
                             int start_ticks = 100) {
  return std::to_string(pid) + " (" + name + ") " + state + " 1 1 1 0 -1 4194560 1 0 0 0 0 " +
         std::to_string(cpu_ticks) + " 0 0 20 0 1 0 " + std::to_string(start_ticks) +
         " 1000 10 18446744073709551615 0 0 0\n";
}

inline SourceFiles healthy_host() {
  SourceFiles files;
  const std::pair<const char*, const char*> texts[] = {
      {"/proc/sys/kernel/random/boot_id", "6f1d0f3c-2f7f-4f46-8e0b-5c9b8a1f0001\n"},
      {"/proc/sys/kernel/osrelease", "5.15.0-1052-azure\n"},
      {"/proc/sys/kernel/tainted", "12289\n"},
      {"/proc/sys/kernel/numa_balancing", "0\n"},
      {"/proc/meminfo",
       "MemTotal:       1961032704 kB\nMemFree:        1800000000 kB\nSwapTotal:             0 kB\n"
       "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n"},
      {"/proc/self/mountinfo",
       "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard,errors=remount-ro\n"
       "23 22 0:21 / /proc rw,nosuid shared:12 - proc proc rw\n"
       "24 22 7:1 / /snap/core/1 ro,nodev,relatime shared:2 - squashfs /dev/loop1 ro\n"
       "25 22 8:15 / /boot ro,relatime - ext4 /dev/sda15 ro\n"
       "30 22 0:50 / /data rw,relatime shared:9 - nfs4 10.0.0.4:/data rw,vers=4.1\n"
       "31 22 0:51 / /share\\040d rw,relatime - lustre 10.0.0.5@tcp:/s rw,flock\n"},
      {"adjtimex:", "status 8193\noffset_us -12\nmax_error_us 1500\n"},
      {"rlimit:nofile", "soft 1048576\nhard 1048576\n"},
      {"rlimit:memlock", "soft unlimited\nhard unlimited\n"},
      {"/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"},
      {"/sys/devices/system/cpu/online", "0-95\n"},
      {"/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"},
      {"/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n"},
      {"/sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "performance\n"},
      {"/sys/devices/system/node/online", "0-1\n"},
      {"/sys/devices/system/edac/mc", ""},
      {"/sys/devices/system/edac/mc/mc0/ue_count", "0\n"},
      {"/sys/devices/system/edac/mc/mc0/ce_count", "3\n"},
      {"/sys/devices/system/edac/mc/mc1/ue_count", "0\n"},
      {"/sys/devices/system/edac/mc/mc1/ce_count", "0\n"},
      {"/sys/module/mlx5_core/version", "23.10-0.5.5\n"},
      {"/sys/class/net/eth0/operstate", "up\n"},
      {"/sys/class/net/eth0/mtu", "1500\n"},
      {"/sys/class/net/ib0/operstate", "up\n"},
      {"/sys/class/net/ib0/mtu", "2044\n"},
      {"/sys/class/net/ib1/operstate", "down\n"},
      {"/sys/class/net/ib1/mtu", "4092\n"},
      {"/usr/lib/x86_64-linux-gnu/libcuda.so.1@", "libcuda.so.535.161.08"},
      {"/usr/lib/x86_64-linux-gnu/libnccl.so.2@", "libnccl.so.2.18.5"},
      {"/dev/shm", ""},
      {"/sys/class/nvme", ""},
      {"/sys/class/nvme/nvme0/transport", "pcie\n"},
      {"/sys/class/nvme/nvme0/state", "live\n"},
      {"/sys/class/nvme/nvme1/transport", "pcie\n"},
      {"/sys/class/nvme/nvme1/state", "live\n"},
      {"/data", ""},
      {"/share d", ""},
  };
  for (const auto& [path, text] : texts) files.add(path, std::string(text));
  constexpr std::int64_t gib = 1ll << 30;
  files.add("statvfs:/", space_text(120 * gib, 60 * gib));
  files.add("statvfs:/tmp", space_text(120 * gib, 60 * gib));
  files.add("statvfs:/dev/shm", space_text(980516352ll << 10, 980000000ll << 10));
  files.add("statvfs:/data", space_text(9000 * gib, 10 * gib));
  files.add("statvfs:/share d", space_text(9000 * gib, 10 * gib));
  return files;
}

inline FileReading refused() {
  return {{}, "Permission denied", false};
}

// A directory of the test's own, gone with it.
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-root-XXXXXX").string();
    path_ = ::mkdtemp(name.data()) != nullptr ? name : "";
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;
  ~FakeRoot() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

  void write(const std::string& path, const std::string& text) const {
    const auto file = below(path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }

  std::filesystem::path below(const std::string& path) const { return path_ + path; }

  // Paths without a text are directories; links are links; calls are files in their place.
  void write(const SourceFiles& files) const {
    for (const auto& [path, reading] : files.all()) write_one(path, reading);
  }

 private:
  void write_one(std::string path, const FileReading& reading) const {
    if (reading.is_missing) return;
    if (!path.starts_with('/')) {
      for (char& c : path) c = c == '/' ? '%' : c;
      return write("/.probes/" + path, reading.ok() ? reading.text : "error " + reading.error);
    }
    if (path.ends_with('@')) {
      path.pop_back();
      std::filesystem::create_directories(below(path).parent_path());
      return std::filesystem::create_symlink(reading.text, below(path));
    }
    if (!reading.text.empty()) return write(path, reading.text);
    std::filesystem::create_directories(below(path));
  }

  std::string path_;
};

// The status of a check on a device; nothing: it was not judged.
inline std::optional<CheckStatus> status_of(const std::vector<HealthFinding>& findings,
                                            std::string_view check, std::string_view device = {}) {
  for (const HealthFinding& finding : findings) {
    if (finding.check == check && finding.device == device) return finding.status;
  }
  return std::nullopt;
}

}  // namespace muster
