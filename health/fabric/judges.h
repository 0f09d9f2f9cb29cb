// Judges the fabric from what its tools said. Pure functions: a finding for each cable or adapter,
// passes too, under the host and device at the end of the cable.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/fabric/fabric.h"
#include "health/fabric/readers.h"
#include "health/model/check.h"

namespace muster {

// Their judges are called by who runs the tools.
extern const CheckSpec fabric_errors;
extern const CheckSpec fabric_links;
extern const CheckSpec fabric_discover;
extern const CheckSpec fabric_sm;

// The device of a host is "mlx5_3:1". Without a host it is a cable between switches,
// "leaf1[7]-spine1[1]", a switch, an adapter that no host is known of, or empty: the fabric.
struct FabricFinding {
  std::string host;
  HealthFinding finding;
};
using FabricFindings = std::vector<FabricFinding>;

// fab.links: cabled ports that are down or cabled otherwise than in the golden topology (none:
// what is cabled is what is linked), links that are too narrow or too slow. The profile says width
// and rate; of what it does not say, and between switches, the golden topology says the rate.
FabricFindings judge_fabric_links(const Fabric& now, const Fabric* golden,
                                  const HealthProfile& profile);

// fab.discover: adapters that are missing, new, or another board than in the golden topology.
FabricFindings judge_fabric_discovery(const Fabric& now, const Fabric& golden,
                                      const HealthProfile& profile);

// fab.errors: what the counters of both ends of each link of `links` grew by. Limits of the profile
// are named as in the table of counters ("symbol_per_h").
FabricFindings judge_fabric_errors(const FabricErrors& before, const FabricErrors& after,
                                   std::chrono::seconds between, const Fabric& links,
                                   const HealthProfile& profile);

// Whether the growth of a counter of this name is judged; others tell of traffic.
bool is_judged_fabric_counter(std::string_view name);

// fab.sm
FabricFindings judge_subnet_manager(const std::optional<SubnetManager>& manager);

}  // namespace muster
