// Which leaf switch each node is below, by what ibnetdiscover says of the cables: pairs of nodes
// are measured within a leaf first, then across. Nodes below several switches have the group of
// them, "leaf1+leaf2"; switches of one name are told apart by their GUIDs. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "health/fabric/fabric.h"
#include "scheduler/model/result.h"

namespace muster {

using LeafOfNode = std::map<std::string, std::string>;

// Of the rails of a node the GUIDs that the node says their ports have.
struct RailGuids {
  std::string node;
  std::map<std::string, std::uint64_t> of_rail;
};

// By the cables of the rails, in their order. A rail without a GUID is known by the description of
// its adapter; "mlx5_0" is the first port of its device, "mlx5_0:2" the second. Each rail is wholly
// in one of the fabrics. The Error names a port that is in none, or below no switch.
Result<LeafOfNode> leaves_by_rails(const std::vector<RailGuids>& nodes,
                                   const std::vector<std::string>& rails,
                                   const std::vector<Fabric>& fabrics);

// Of all hosts that adapters are named after, by all of their cables.
Result<LeafOfNode> leaves_by_names(const std::vector<Fabric>& fabrics);

}  // namespace muster
