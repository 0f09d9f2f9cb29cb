// What a healthy node of one kind looks like, and how seriously each check is taken there. What a
// profile does not say is not judged. Units stand in the names, as in the file. Made by templates/
// from a file, part of a compute target; health/model/profile.h reads it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/text/fields.h"

namespace muster {

// off: not run. observe: a failure is told, and that it would have drained. enforce: it drains.
enum class CheckMode { off, observe, enforce };

struct CheckSetting {
  std::optional<CheckMode> mode;
  std::optional<int> samples;            // bad ones in a row
  std::map<std::string, double> limits;  // by name with its unit: "drain_per_h"
  friend bool operator==(const CheckSetting&, const CheckSetting&) = default;

  MUSTER_FIELDS(mode, samples, limits)
};

// Checks of the pattern are left out on the device ("ib.*" on "mlx5_an0"); `*` is any text. A
// device without a port stands for all of its ports.
struct CheckExclusion {
  std::string check;
  std::string device;  // empty: all
  std::string why;
  friend bool operator==(const CheckExclusion&, const CheckExclusion&) = default;

  MUSTER_FIELDS(check, device, why)
};

struct GpuProfile {
  std::optional<int> count;
  std::optional<int> nvlinks;  // of each GPU
  std::optional<int> nvlink_mb_per_s;
  std::optional<int> pcie_gen;
  std::optional<int> pcie_width;
  std::optional<bool> ecc;
  std::optional<bool> mig;
  std::optional<bool> persistence;
  friend bool operator==(const GpuProfile&, const GpuProfile&) = default;

  MUSTER_FIELDS(count, nvlinks, nvlink_mb_per_s, pcie_gen, pcie_width, ecc, mig, persistence)
};

struct InfinibandProfile {
  std::vector<std::string> ports;  // "mlx5_[0-7]:1": a pattern of names with [a-b] and *
  std::optional<int> rate_gbps;
  std::optional<std::string> width;  // "4X"
  friend bool operator==(const InfinibandProfile&, const InfinibandProfile&) = default;

  MUSTER_FIELDS(ports, rate_gbps, width)
};

struct HostProfile {
  std::optional<std::int64_t> mem_kb;
  double mem_tolerance_pct = 5;
  std::optional<std::int64_t> swap_kb;
  std::optional<std::int64_t> nofile;
  std::optional<int> cpus;
  std::optional<int> numa_nodes;
  std::optional<int> nvmes;
  std::optional<std::int64_t> shm_kb;
  std::optional<std::int64_t> hugepages;
  std::optional<std::string> transparent_hugepages;  // "always", "madvise", "never"
  std::optional<std::string> governor;               // of all processors: "performance"
  std::optional<bool> turbo;
  std::optional<bool> numa_balancing;
  std::vector<std::string> mounts;
  std::vector<std::string> disks{"/", "/tmp"};  // local ones, whose free space counts
  double free_pct = 10;
  std::int64_t free_mb = 500;
  std::vector<std::string> services;  // programs that run: "sshd"
  friend bool operator==(const HostProfile&, const HostProfile&) = default;

  MUSTER_FIELDS(mem_kb, mem_tolerance_pct, swap_kb, nofile, cpus, numa_nodes, nvmes, shm_kb,
                hugepages, transparent_hugepages, governor, turbo, numa_balancing, mounts, disks,
                free_pct, free_mb, services)
};

struct BreakerProfile {
  int min_nodes = 2;
  double fleet_pct = 5;
  int window_s = 600;
  friend bool operator==(const BreakerProfile&, const BreakerProfile&) = default;

  MUSTER_FIELDS(min_nodes, fleet_pct, window_s)
};

struct HealthProfile {
  std::string name;
  // Which nodes it is for, when nobody names it. A pattern; empty: none is found by its GPUs.
  std::string match_gpu_name;
  std::optional<int> match_gpu_count;
  GpuProfile gpu;
  InfinibandProfile ib;
  HostProfile host;
  std::map<std::string, double> floors;  // "allreduce8_gb_per_s"
  std::vector<std::string> required;     // unknown counts against the node
  std::map<std::string, CheckSetting> checks;
  std::vector<CheckExclusion> exclude;
  BreakerProfile breaker;
  friend bool operator==(const HealthProfile&, const HealthProfile&) = default;

  MUSTER_FIELDS(name, match_gpu_name, match_gpu_count, gpu, ib, host, floors, required, checks,
                exclude, breaker)
};

}  // namespace muster
