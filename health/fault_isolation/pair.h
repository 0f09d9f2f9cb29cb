// The routes of packets between nodes, as switches and their tables say: which port of the fabric
// each rail of a node is, below which leaf switches nodes are, and the table of links and hops that
// a localisation goes by. All or nothing: one port or way that is not known, and there are none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "health/fabric/fabric.h"
#include "health/fabric/forwarding_tables.h"
#include "health/fault_isolation/pair_test.h"
#include "scheduler/model/result.h"

namespace muster {

// Of each rail of a node, in the order of LocaliseNode::rails, the GUID that the node says its port
// has. Who says none is known by the description of its adapters.
struct RailGuids {
  std::string node;
  std::map<std::string, std::uint64_t> of_rail;
};

struct RailPorts {
  std::vector<std::vector<FabricEnd>> ports;  // of each node, of each rail
  std::vector<std::size_t> fabric_of_rail;    // the place of the fabric that it is in
};
// Rails may be in fabrics of their own, each wholly in one. "mlx5_0" is the first port of its
// device, "mlx5_0:2" the second.
Result<RailPorts> rail_ports(const std::vector<RailGuids>& nodes,
                             const std::vector<std::string>& rails,
                             const std::vector<Fabric>& fabrics);

// The leaf of each node by the switches that its rails are cabled to, in their order.
Result<std::vector<std::string>> leaves_by_cabling(const RailPorts& ports,
                                                   const std::vector<Fabric>& fabrics);

struct NodeRoutes {
  FabricRoutes routes;             // may be copied, and outlive this
  std::vector<FabricLink> cables;  // of each of routes.links; the end at switch_a first
  std::map<std::string, std::uint64_t> switches;  // by the name that links have for them
  std::uint64_t digest = 0;                       // of all ways between the nodes
};
// `tables` are those of `fabrics`, in their order. Nodes whose leaf has one name must be below the
// same switches: pairs of them are measured as if they met nobody on their way.
Result<NodeRoutes> routes_between(const std::vector<LocaliseNode>& nodes, const RailPorts& ports,
                                  const std::vector<Fabric>& fabrics,
                                  std::vector<ForwardingTables> tables);

}  // namespace muster
