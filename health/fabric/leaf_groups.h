// Which switches each host is cabled to, for finding a bad node or link by measuring pairs: pairs
// within a leaf first, then across. Plain data.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "health/fabric/fabric.h"

namespace muster {

struct HostCable {
  std::string device;  // "mlx5_3:1"
  std::optional<int> rail;
  FabricEnd adapter;
  FabricEnd leaf;
  std::string leaf_name;
  friend bool operator==(const HostCable&, const HostCable&) = default;
};

// Hosts that are cabled to the same switches: they differ in no cable's way to the others.
struct LeafGroup {
  std::vector<std::uint64_t> leaves;  // sorted
  std::vector<std::string> leaf_names;
  std::vector<std::string> hosts;  // sorted
  friend bool operator==(const LeafGroup&, const LeafGroup&) = default;
};

struct HostCabling {
  std::map<std::string, std::vector<HostCable>> cables;             // of each host, by rail
  std::map<std::uint64_t, std::vector<std::string>> hosts_of_leaf;  // sorted
  std::vector<LeafGroup> groups;
};

HostCabling host_cabling_of(const Fabric& fabric);

}  // namespace muster
