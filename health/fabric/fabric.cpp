#include "health/fabric/fabric.h"

#include <array>
#include <cstdio>

namespace muster {

namespace {

struct Speed {
  std::string_view name;
  double signalled_gbps;
  double gbps;
};
// Encoding takes from EDR on what the name rounds to; sysfs and profiles say the rounded number.
constexpr std::array<Speed, 9> speeds{{{"SDR", 2.5, 2.5},
                                       {"DDR", 5, 5},
                                       {"QDR", 10, 10},
                                       {"FDR10", 10, 10},
                                       {"FDR", 14.0625, 14},
                                       {"EDR", 25.78125, 25},
                                       {"HDR", 53.125, 50},
                                       {"NDR", 106.25, 100},
                                       {"XDR", 212.5, 200}}};
constexpr std::array<std::string_view, 5> state_words{"?", "Down", "Initialize", "Armed", "Active"};

}  // namespace

FabricLink link_of(const FabricEnd& one, const FabricEnd& other) {
  return one < other ? FabricLink{one, other} : FabricLink{other, one};
}

const FabricNode* find_node(const Fabric& fabric, std::uint64_t guid) {
  const auto found = fabric.nodes.find(guid);
  return found == fabric.nodes.end() ? nullptr : &found->second;
}

const FabricPort* find_port(const Fabric& fabric, const FabricEnd& end) {
  const auto found = fabric.ports.find(end);
  return found == fabric.ports.end() ? nullptr : &found->second;
}

void note_node(Fabric& fabric, std::uint64_t guid, std::string_view name, FabricNodeKind kind) {
  FabricNode& node = fabric.nodes[guid];
  if (!name.empty()) node.name = name;
  if (kind != FabricNodeKind::unknown) node.kind = kind;
}

void note_port(Fabric& fabric, const FabricEnd& end, const FabricPort& port) {
  fabric.ports[end] = port;
}

std::string text_of_guid(std::uint64_t guid) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%016llx", static_cast<unsigned long long>(guid));
  return text.data();
}

std::string text_of(const Fabric& fabric, const FabricEnd& end) {
  const FabricNode* node = find_node(fabric, end.guid);
  const bool is_named = node != nullptr && !node->name.empty();
  return (is_named ? node->name : text_of_guid(end.guid)) + "[" + std::to_string(end.port) + "]";
}

std::string_view word_of(PortState state) {
  return state_words.at(static_cast<std::size_t>(state));
}

std::string text_of_state(const FabricPort& port) {
  const std::string state(word_of(port.state));
  return port.physical.empty() ? state : state + "/" + port.physical;
}

std::optional<double> lane_gbps_named(std::string_view speed) {
  for (const Speed& one : speeds) {
    if (one.name == speed) return one.gbps;
  }
  return std::nullopt;
}

double lane_gbps_signalled(double gbps) {
  for (const Speed& one : speeds) {
    if (one.signalled_gbps == gbps) return one.gbps;
  }
  return gbps;
}

}  // namespace muster
