#include "health/fabric/leaf_groups.h"

#include <algorithm>
#include <optional>
#include <set>

#include "health/fabric/readers.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

bool is_switch(const Fabric& fabric, std::uint64_t guid) {
  const FabricNode* node = find_node(fabric, guid);
  return node != nullptr && node->kind == FabricNodeKind::switch_node;
}

// Each another.
std::map<std::uint64_t, std::string> switch_names(const std::vector<Fabric>& fabrics) {
  std::map<std::uint64_t, std::string> names;
  std::map<std::string, int> times;
  for (const Fabric& fabric : fabrics) {
    for (const auto& [guid, node] : fabric.nodes) {
      if (is_switch(fabric, guid) && names.emplace(guid, node.name).second) ++times[node.name];
    }
  }
  for (auto& [guid, name] : names) {
    if (name.empty()) {
      name = text_of_guid(guid);
    } else if (times[name] > 1) {
      name += " " + text_of_guid(guid);
    }
  }
  return names;
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
  const std::string name = rail.find(':') == rail.npos ? rail + ":1" : rail;
  const auto said = node.of_rail.find(rail);
  if (said != node.of_rail.end()) {
    TextCursor number(std::string_view(name).substr(name.find(':') + 1));
    const FabricEnd end{said->second, number.take_port().value_or(-1)};
    const bool is_there = number.rest().empty() && find_port(fabric, end) != nullptr;
    return is_there ? std::optional(end) : std::nullopt;
  }
  const auto found = by_name.find(node.node + " " + name);
  return found == by_name.end() ? std::nullopt : found->second;
}

// The switches above a rail, of each node. The Error names who is not in this fabric.
Result<std::vector<std::uint64_t>> switches_of(const std::vector<RailGuids>& nodes,
                                               const std::string& rail, const Fabric& fabric,
                                               const PortsByName& by_name) {
  std::vector<std::uint64_t> switches;
  for (const RailGuids& node : nodes) {
    const auto port = port_of(node, rail, fabric, by_name);
    if (!port) return Error{"the fabric has no port of " + node.node + " " + rail};
    const auto peer = find_port(fabric, *port)->peer;
    if (!peer || !is_switch(fabric, peer->guid)) {
      return Error{node.node + " " + rail + " is below no switch"};
    }
    switches.push_back(peer->guid);
  }
  return switches;
}

std::string label_of(std::vector<std::uint64_t> switches,
                     const std::map<std::uint64_t, std::string>& names) {
  const bool is_one = std::ranges::count(switches, switches.front()) == std::ssize(switches);
  if (is_one) switches.resize(1);
  std::vector<std::string> of_switches;
  for (const std::uint64_t one : switches) of_switches.push_back(names.at(one));
  return joined(of_switches, "+");
}

}  // namespace

Result<LeafOfNode> leaves_by_rails(const std::vector<RailGuids>& nodes,
                                   const std::vector<std::string>& rails,
                                   const std::vector<Fabric>& fabrics) {
  std::vector<PortsByName> by_name;
  for (const Fabric& fabric : fabrics) {
    if (!fabric.reading.error.empty()) return Error{fabric.reading.error};
    by_name.push_back(ports_by_name(fabric));
  }
  std::map<std::string, std::vector<std::uint64_t>> switches;
  for (const std::string& rail : rails) {
    Result<std::vector<std::uint64_t>> found = Error{"there is no fabric"};
    std::string why;
    for (std::size_t i = 0; i < fabrics.size() && !found; ++i) {
      found = switches_of(nodes, rail, fabrics[i], by_name[i]);
      if (!found && why.empty()) why = found.error().message;
    }
    if (!found) return Error{why};
    for (std::size_t i = 0; i < nodes.size(); ++i) switches[nodes[i].node].push_back((*found)[i]);
  }
  const auto names = switch_names(fabrics);
  LeafOfNode leaves;
  for (const auto& [node, of_node] : switches) leaves[node] = label_of(of_node, names);
  return leaves;
}

Result<LeafOfNode> leaves_by_names(const std::vector<Fabric>& fabrics) {
  const auto names = switch_names(fabrics);
  std::map<std::string, std::set<std::uint64_t>> switches;
  std::string why;
  for (const Fabric& fabric : fabrics) {
    if (why.empty()) why = fabric.reading.error;
    const auto note = [&](const FabricEnd& adapter, const FabricEnd& leaf) {
      const FabricNode* node = find_node(fabric, adapter.guid);
      if (node == nullptr || is_switch(fabric, adapter.guid) || !is_switch(fabric, leaf.guid))
        return;
      const auto named = host_device_of(node->name);
      if (named) switches[named->host].insert(leaf.guid);
    };
    for (const auto& [end, port] : fabric.ports) {
      if (!port.peer) continue;  // either side of a cable may have told of it
      note(end, *port.peer);
      note(*port.peer, end);
    }
  }
  LeafOfNode leaves;
  for (const auto& [host, of_host] : switches) {
    leaves[host] = label_of({of_host.begin(), of_host.end()}, names);
  }
  if (!leaves.empty()) return leaves;
  return Error{why.empty() ? "ibnetdiscover reported no host below a switch" : why};
}

}  // namespace muster
