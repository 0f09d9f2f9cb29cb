// A profile from what was measured on a node that is known to be good. Pure: what nobody measured
// stays out of the profile, and so is not judged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "health/model/profile.h"

namespace muster {

struct LearnedPort {
  std::string device;  // "mlx5_0:1"
  bool is_infiniband = true;
  std::optional<int> rate_gbps;
  std::optional<std::string> width;  // "4X"
};

struct LearnedFacts {
  std::string profile_name;
  std::optional<std::string> gpu_name;
  std::optional<int> gpu_count;
  std::optional<int> nvlinks;  // of the GPU that has the fewest
  std::optional<int> nvlink_mb_per_s;
  std::optional<int> pcie_gen;  // under load
  std::optional<int> pcie_width;
  std::optional<bool> ecc;
  std::optional<bool> mig;
  std::optional<bool> persistence;
  std::vector<LearnedPort> ports;
  std::optional<std::int64_t> mem_kb;
  std::optional<std::int64_t> swap_kb;
  std::optional<std::int64_t> nofile;
  std::optional<int> cpus;
  std::optional<int> numa_nodes;
  std::optional<int> nvmes;
  std::optional<std::int64_t> shm_kb;
  std::vector<std::string> mounts;
  std::map<std::string, double> measured;  // by floor: "p2p_gb_per_s"
};

// Two nodes that are both good differ by less.
inline constexpr double learned_margin_pct = 5;

HealthProfile learn_profile(const LearnedFacts& facts);

}  // namespace muster
