#include "health/fabric/fabric_router.h"

#include <algorithm>
#include <set>

namespace muster {

namespace {

constexpr int hops_most = 64;  // a packet for the subnet manager may take as many
constexpr std::size_t ports_of_a_switch = 256;

// Addresses that two ends have: nobody's.
std::set<int> shared_lids(const Fabric& cabling) {
  std::set<int> all;
  std::set<int> shared;
  for (const auto& [guid, lid] : cabling.lids) {
    if (!all.insert(lid).second) shared.insert(lid);
  }
  return shared;
}

bool is_told_by_both(const Fabric& cabling, const FabricEnd& end, const FabricEnd& peer) {
  const FabricPort* other = find_port(cabling, peer);
  return other != nullptr && other->peer == end;
}

}  // namespace

FabricRouter::FabricRouter(const Fabric& cabling, ForwardingTables tables) {
  for (const auto& [guid, node] : cabling.nodes) {
    if (node.kind == FabricNodeKind::switch_node) guids_.push_back(guid);
  }
  tables_.resize(guids_.size());
  exits_.resize(guids_.size(), std::vector<Exit>(ports_of_a_switch));
  for (std::size_t place = 0; place < guids_.size(); ++place) {
    const auto table = tables.out_ports.find(guids_[place]);
    if (table != tables.out_ports.end()) tables_[place] = std::move(table->second);
  }
  for (const auto& [end, port] : cabling.ports) {
    if (port.peer && is_told_by_both(cabling, end, *port.peer)) {
      add_exit(cabling, end, *port.peer);
    }
  }
  const std::set<int> shared = shared_lids(cabling);
  std::erase_if(doors_, [&](const auto& one) { return shared.contains(one.second.lid); });
}

std::optional<std::uint32_t> FabricRouter::place_of(std::uint64_t guid) const {
  const auto found = std::ranges::lower_bound(guids_, guid);
  if (found == guids_.end() || *found != guid) return std::nullopt;
  return static_cast<std::uint32_t>(found - guids_.begin());
}

void FabricRouter::add_exit(const Fabric& cabling, const FabricEnd& end, const FabricEnd& peer) {
  const auto here = place_of(end.guid);
  // 0 is the switch itself.
  if (!here || end.port < 1) return;
  Exit& exit = exits_[*here][static_cast<std::size_t>(end.port)];
  const auto there = place_of(peer.guid);
  if (!there) {
    const auto lid = cabling.lids.find(peer.guid);
    exit.kind = Exit::Kind::adapter;
    if (lid != cabling.lids.end()) doors_[peer] = {*here, end.port, lid->second};
    return;
  }
  if (peer.port < 1) return;
  exit.kind = Exit::Kind::cable;
  exit.place = *there;
  const FabricLink link = link_of(end, peer);
  if (link.first == end) {  // it comes first: ports are in order
    exit.hop = {cables_.size(), true};
    cables_.push_back(link);
    return;
  }
  const Exit& other = exits_[*there][static_cast<std::size_t>(peer.port)];
  exit.hop = {other.hop.cable, false};
}

std::optional<FabricDoor> FabricRouter::door(const FabricEnd& adapter) const {
  const auto found = doors_.find(adapter);
  if (found == doors_.end()) return std::nullopt;
  return found->second;
}

bool FabricRouter::add_hops(const FabricDoor& from, const FabricDoor& to,
                            std::vector<CableHop>& hops) const {
  const auto lid = static_cast<std::size_t>(to.lid);
  std::uint32_t place = from.place;
  for (int i = 0; i < hops_most; ++i) {
    const auto& table = tables_[place];
    if (lid >= table.size()) return false;
    const Exit& exit = exits_[place][table[lid]];
    if (exit.kind == Exit::Kind::none) return false;
    if (exit.kind == Exit::Kind::adapter) {
      return place == to.place && table[lid] == static_cast<std::uint8_t>(to.port);
    }
    hops.push_back(exit.hop);
    place = exit.place;
  }
  return false;
}

}  // namespace muster
