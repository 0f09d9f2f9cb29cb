#include "health/fabric/leaf_groups.h"

#include <algorithm>
#include <set>

#include "health/fabric/host_device.h"

namespace muster {

namespace {

// Either side of a cable may have told of it.
std::set<std::pair<FabricEnd, FabricEnd>> cabled_ends(const Fabric& fabric) {
  std::set<std::pair<FabricEnd, FabricEnd>> ends;
  for (const auto& [end, port] : fabric.ports) {
    if (!port.peer) continue;
    ends.emplace(end, *port.peer);
    ends.emplace(*port.peer, end);
  }
  return ends;
}

bool is_switch(const Fabric& fabric, std::uint64_t guid) {
  const FabricNode* node = find_node(fabric, guid);
  return node != nullptr && node->kind == FabricNodeKind::switch_node;
}

void add_cable(const Fabric& fabric, const FabricEnd& adapter, const FabricEnd& leaf,
               HostCabling& cabling) {
  const FabricNode* node = find_node(fabric, adapter.guid);
  if (node == nullptr || is_switch(fabric, adapter.guid) || !is_switch(fabric, leaf.guid)) return;
  const auto named = host_device_of(node->name);
  if (!named) return;
  cabling.cables[named->host].push_back({named->device + ":" + std::to_string(adapter.port),
                                         named->rail, adapter, leaf,
                                         find_node(fabric, leaf.guid)->name});
}

void sort_by_rail(std::vector<HostCable>& cables) {
  std::ranges::sort(cables, [](const HostCable& a, const HostCable& b) {
    return std::tie(a.rail, a.device) < std::tie(b.rail, b.device);
  });
}

}  // namespace

HostCabling host_cabling_of(const Fabric& fabric) {
  HostCabling cabling;
  for (const auto& [adapter, leaf] : cabled_ends(fabric)) {
    add_cable(fabric, adapter, leaf, cabling);
  }
  std::map<std::vector<std::uint64_t>, std::vector<std::string>> by_leaves;
  for (auto& [host, cables] : cabling.cables) {
    sort_by_rail(cables);
    std::set<std::uint64_t> leaves;
    for (const HostCable& cable : cables) leaves.insert(cable.leaf.guid);
    for (const std::uint64_t leaf : leaves) cabling.hosts_of_leaf[leaf].push_back(host);
    by_leaves[{leaves.begin(), leaves.end()}].push_back(host);
  }
  for (auto& [leaves, hosts] : by_leaves) {
    LeafGroup group{leaves, {}, std::move(hosts)};
    for (const std::uint64_t leaf : leaves) {
      group.leaf_names.push_back(find_node(fabric, leaf)->name);
    }
    cabling.groups.push_back(std::move(group));
  }
  return cabling;
}

}  // namespace muster
