#include "health/fault_isolation/pair.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "health/fabric/fabric_router.h"
#include "health/fabric/host_device.h"

namespace muster {

namespace {

// ---- ports of rails

struct RailName {
  std::string device;
  int port = 1;
};

RailName parts_of(const std::string& rail) {
  const std::size_t colon = rail.find(':');
  if (colon == rail.npos) return {rail, 1};
  const std::string number = rail.substr(colon + 1);
  const bool is_number = !number.empty() && number.size() <= 3 &&
                         std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  return {rail.substr(0, colon), is_number ? std::stoi(number) : -1};
}

// "n1 mlx5_0:1" to the port; nothing where two have the description.
using PortsByName = std::map<std::string, std::optional<FabricEnd>>;

PortsByName ports_by_name(const Fabric& fabric) {
  PortsByName found;
  for (const auto& [end, port] : fabric.ports) {
    const FabricNode* node = find_node(fabric, end.guid);
    if (node == nullptr || node->kind != FabricNodeKind::adapter) continue;
    const auto named = host_device_of(node->name);
    if (!named) continue;
    const std::string name = named->host + " " + named->device + ":" + std::to_string(end.port);
    const auto [at, is_new] = found.emplace(name, end);
    if (!is_new) at->second.reset();
  }
  return found;
}

std::optional<FabricEnd> port_of(const RailGuids& node, const std::string& rail,
                                 const Fabric& fabric, const PortsByName& by_name) {
  const auto [device, number] = parts_of(rail);
  const auto said = node.of_rail.find(rail);
  if (said != node.of_rail.end()) {
    const FabricEnd end{said->second, number};
    return find_port(fabric, end) == nullptr ? std::nullopt : std::optional(end);
  }
  const auto found = by_name.find(node.node + " " + device + ":" + std::to_string(number));
  return found == by_name.end() ? std::nullopt : found->second;
}

// ---- names

std::string named(const std::string& name, std::uint64_t guid, const std::set<std::string>& twice) {
  if (name.empty()) return text_of_guid(guid);
  return twice.contains(name) ? name + " " + text_of_guid(guid) : name;
}

// Of switches, each another.
std::map<std::uint64_t, std::string> switch_names(const std::vector<Fabric>& fabrics) {
  std::map<std::uint64_t, std::string> names;
  for (const Fabric& fabric : fabrics) {
    for (const auto& [guid, node] : fabric.nodes) {
      if (node.kind == FabricNodeKind::switch_node) names[guid] = node.name;
    }
  }
  std::set<std::string> once;
  std::set<std::string> twice;
  for (const auto& [guid, name] : names) {
    if (!once.insert(name).second) twice.insert(name);
  }
  for (auto& [guid, name] : names) name = named(name, guid, twice);
  return names;
}

std::optional<std::uint64_t> leaf_of(const FabricEnd& adapter, const Fabric& fabric) {
  const FabricPort* port = find_port(fabric, adapter);
  if (port == nullptr || !port->peer) return std::nullopt;
  const FabricNode* leaf = find_node(fabric, port->peer->guid);
  const bool is_switch = leaf != nullptr && leaf->kind == FabricNodeKind::switch_node;
  return is_switch ? std::optional(port->peer->guid) : std::nullopt;
}

std::string rail_of(const std::vector<LocaliseNode>& nodes, NodeIndex node, std::size_t rail) {
  return nodes[node].name + " " + nodes[node].rails[rail];
}

// ---- routes

// FNV-1a, of numbers.
class Digest {
 public:
  void add(std::uint64_t value) { state_ = (state_ ^ value) * 0x100000001b3; }
  void add(const FabricEnd& end) {
    add(end.guid);
    add(static_cast<std::uint64_t>(end.port));
  }
  std::uint64_t state() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

struct CableUse {
  std::size_t fabric = 0;
  std::size_t cable = 0;
  friend auto operator<=>(const CableUse&, const CableUse&) = default;
};

struct LinkOfCable {
  std::size_t link = 0;
  bool first_is_a = true;
};

// What is left to ask for the hops of a pair.
struct Ways {
  std::vector<FabricRouter> routers;
  std::vector<std::size_t> router_of_rail;
  std::vector<std::vector<FabricDoor>> doors;           // of each node, of each rail
  std::vector<std::vector<LinkOfCable>> link_of_cable;  // of each router
  mutable std::vector<CableHop> cables;                 // reused

  void hops(NodeIndex from, NodeIndex to, std::size_t rail, std::vector<LinkHop>& found) const {
    const std::size_t router = router_of_rail[rail];
    cables.clear();
    if (!routers[router].add_hops(doors[from][rail], doors[to][rail], cables)) return;
    for (const CableHop& hop : cables) {
      const LinkOfCable& one = link_of_cable[router][hop.cable];
      found.push_back({one.link, hop.from_first == one.first_is_a});
    }
  }
};

class RoutesBuilder {
 public:
  RoutesBuilder(const std::vector<LocaliseNode>& nodes, const RailPorts& ports,
                const std::vector<Fabric>& fabrics)
      : nodes_(nodes), ports_(ports), fabrics_(fabrics), names_(switch_names(fabrics)) {}

  Result<NodeRoutes> build(std::vector<ForwardingTables> tables) {
    ways_.router_of_rail = ports_.fabric_of_rail;
    for (std::size_t i = 0; i < fabrics_.size(); ++i) {
      ways_.routers.emplace_back(fabrics_[i], std::move(tables[i]));
    }
    std::string why = find_doors();
    if (why.empty()) why = follow_all();
    if (!why.empty()) return Error{std::move(why)};
    return routes();
  }

 private:
  std::string find_doors() {
    for (NodeIndex node = 0; node < nodes_.size(); ++node) {
      ways_.doors.emplace_back();
      for (std::size_t rail = 0; rail < ports_.fabric_of_rail.size(); ++rail) {
        const FabricRouter& router = ways_.routers[ports_.fabric_of_rail[rail]];
        const auto door = router.door(ports_.ports[node][rail]);
        if (!door) return rail_of(nodes_, node, rail) + " is below no switch, or without a LID";
        ways_.doors.back().push_back(*door);
      }
    }
    return {};
  }

  // Nodes below one switch go the same ways: one of them is followed.
  std::string follow_all() {
    for (std::size_t rail = 0; rail < ways_.router_of_rail.size(); ++rail) {
      std::map<std::uint32_t, NodeIndex> one_of_leaf;
      for (NodeIndex node = 0; node < nodes_.size(); ++node) {
        one_of_leaf.emplace(ways_.doors[node][rail].place, node);
      }
      for (NodeIndex to = 0; to < nodes_.size(); ++to) {
        for (const auto& [leaf, from] : one_of_leaf) {
          std::string why = follow(from, to, rail);
          if (!why.empty()) return why;
        }
      }
      if (std::string why = mixed_leaf(rail); !why.empty()) return why;
    }
    return {};
  }

  std::string follow(NodeIndex from, NodeIndex to, std::size_t rail) {
    const std::size_t fabric = ways_.router_of_rail[rail];
    const FabricRouter& router = ways_.routers[fabric];
    const FabricDoor& out = ways_.doors[from][rail];
    hops_.clear();
    if (!router.add_hops(out, ways_.doors[to][rail], hops_)) {
      return "the switches' tables do not lead from " + rail_of(nodes_, from, rail) + " to " +
             rail_of(nodes_, to, rail);
    }
    digest_.add(router.switch_guid(out));
    digest_.add(ports_.ports[to][rail]);
    for (const CableHop& hop : hops_) {
      const FabricLink& cable = router.cables()[hop.cable];
      digest_.add(hop.from_first ? cable.first : cable.second);
      digest_.add(hop.from_first ? cable.second : cable.first);
      rails_of_cable_[{fabric, hop.cable}].insert(rail);
    }
    return {};
  }

  std::string mixed_leaf(std::size_t rail) const {
    std::map<std::string, NodeIndex> of_leaf;
    for (NodeIndex node = 0; node < nodes_.size(); ++node) {
      const auto [at, is_new] = of_leaf.emplace(nodes_[node].leaf, node);
      const NodeIndex mate = at->second;
      if (!is_new && ways_.doors[mate][rail].place != ways_.doors[node][rail].place) {
        return nodes_[mate].name + " and " + nodes_[node].name + " are said to be below leaf " +
               at->first + ", and are below two switches";
      }
    }
    return {};
  }

  NodeRoutes routes() {
    NodeRoutes found;
    for (const FabricRouter& router : ways_.routers) {
      ways_.link_of_cable.emplace_back(router.cables().size());
    }
    for (const auto& [use, rails] : rails_of_cable_) {
      found.routes.rails_share_links |= rails.size() > 1;
      add_link(use, found);
    }
    found.digest = digest_.state();
    const auto ways = std::make_shared<const Ways>(std::move(ways_));
    found.routes.hops = [ways](NodeIndex from, NodeIndex to, std::size_t rail,
                               std::vector<LinkHop>& hops) {
      if (rail < ways->router_of_rail.size()) ways->hops(from, to, rail, hops);
    };
    return found;
  }

  // Its ends in the order of their names, as the checks of the fabric tell a cable.
  void add_link(const CableUse& use, NodeRoutes& found) {
    const FabricLink& cable = ways_.routers[use.fabric].cables()[use.cable];
    const bool first_is_a = text_of_end(cable.first) <= text_of_end(cable.second);
    const FabricEnd& a = first_is_a ? cable.first : cable.second;
    const FabricEnd& b = first_is_a ? cable.second : cable.first;
    ways_.link_of_cable[use.fabric][use.cable] = {found.routes.links.size(), first_is_a};
    const std::string& switch_a = names_.at(a.guid);
    const std::string& switch_b = names_.at(b.guid);
    found.routes.links.push_back({text_of_end(a) + "-" + text_of_end(b), switch_a, switch_b});
    found.cables.emplace_back(a, b);
    found.switches[switch_a] = a.guid;
    found.switches[switch_b] = b.guid;
  }

  std::string text_of_end(const FabricEnd& end) const {
    return names_.at(end.guid) + "[" + std::to_string(end.port) + "]";
  }

  const std::vector<LocaliseNode>& nodes_;
  const RailPorts& ports_;
  const std::vector<Fabric>& fabrics_;
  std::map<std::uint64_t, std::string> names_;
  Ways ways_;
  std::map<CableUse, std::set<std::size_t>> rails_of_cable_;
  std::vector<CableHop> hops_;
  Digest digest_;
};

}  // namespace

Result<RailPorts> rail_ports(const std::vector<RailGuids>& nodes,
                             const std::vector<std::string>& rails,
                             const std::vector<Fabric>& fabrics) {
  std::vector<PortsByName> by_name;
  for (const Fabric& fabric : fabrics) by_name.push_back(ports_by_name(fabric));
  RailPorts found;
  found.ports.resize(nodes.size());
  for (const std::string& rail : rails) {
    std::string missing;  // who is in none of the fabrics that others are in
    std::optional<std::size_t> in;
    for (std::size_t i = 0; i < fabrics.size() && !in; ++i) {
      std::vector<FabricEnd> ports;
      for (const RailGuids& node : nodes) {
        const auto port = port_of(node, rail, fabrics[i], by_name[i]);
        if (port) ports.push_back(*port);
        if (!port && missing.empty()) missing = node.node;
      }
      if (ports.size() != nodes.size()) continue;
      in = i;
      for (std::size_t node = 0; node < nodes.size(); ++node) {
        found.ports[node].push_back(ports[node]);
      }
    }
    if (!in) return Error{"the fabric has no port of " + missing + " " + rail};
    found.fabric_of_rail.push_back(*in);
  }
  return found;
}

Result<std::vector<std::string>> leaves_by_cabling(const RailPorts& ports,
                                                   const std::vector<Fabric>& fabrics) {
  const auto names = switch_names(fabrics);
  std::vector<std::string> leaves;
  for (const std::vector<FabricEnd>& of_node : ports.ports) {
    std::vector<std::uint64_t> switches;
    for (std::size_t rail = 0; rail < of_node.size(); ++rail) {
      const auto leaf = leaf_of(of_node[rail], fabrics[ports.fabric_of_rail[rail]]);
      if (!leaf) return Error{text_of_guid(of_node[rail].guid) + " is below no switch"};
      switches.push_back(*leaf);
    }
    const bool is_one =
        std::ranges::all_of(switches, [&](std::uint64_t one) { return one == switches.front(); });
    if (is_one && !switches.empty()) switches.resize(1);
    std::string label;
    for (const std::uint64_t one : switches) label += (label.empty() ? "" : "+") + names.at(one);
    leaves.push_back(std::move(label));
  }
  return leaves;
}

Result<NodeRoutes> routes_between(const std::vector<LocaliseNode>& nodes, const RailPorts& ports,
                                  const std::vector<Fabric>& fabrics,
                                  std::vector<ForwardingTables> tables) {
  check(tables.size() == fabrics.size(), "each fabric has its tables");
  for (std::size_t i = 0; i < fabrics.size(); ++i) {
    if (!tables[i].reading.error.empty()) return Error{tables[i].reading.error};
    const auto& complaints = tables[i].reading.complaints;
    if (!tables[i].reading.is_whole()) {
      return Error{"the tables of the switches are not whole" +
                   (complaints.empty() ? std::string() : ": " + complaints.front())};
    }
    if (!fabrics[i].reading.is_whole()) return Error{"the list of cables is not whole"};
  }
  return RoutesBuilder(nodes, ports, fabrics).build(std::move(tables));
}

}  // namespace muster
