#include "health/fabric/fabric.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "health/fabric/readers.h"

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

std::set<FabricLink> links_of(const Fabric& fabric) {
  std::set<FabricLink> links;
  for (const auto& [end, port] : fabric.ports) {
    if (port.peer) links.insert(std::minmax(end, *port.peer));
  }
  return links;
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
  const auto found = std::ranges::find(speeds, speed, &Speed::name);
  return found == speeds.end() ? std::nullopt : std::optional(found->gbps);
}

double lane_gbps_signalled(double gbps) {
  const auto found = std::ranges::find(speeds, gbps, &Speed::signalled_gbps);
  return found == speeds.end() ? gbps : found->gbps;
}

std::string decimal_text(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::optional<HostDevice> host_device_of(std::string_view description) {
  constexpr std::string_view older = "HCA-";
  constexpr std::uint64_t hca_max = 255;
  const std::string_view host = description.substr(0, description.find(' '));
  if (host.size() == description.size()) return std::nullopt;
  const std::string_view device = description.substr(host.size() + 1);
  if (!is_word_of(host, "_-.") || !is_word_of(device, "_-.")) return std::nullopt;
  if (device.starts_with(older)) {
    TextCursor cursor(device.substr(older.size()));
    const auto number = cursor.take_number();
    if (!number || !cursor.rest().empty() || *number < 1 || *number > hca_max) return std::nullopt;
    return HostDevice{std::string(host), "mlx5_" + std::to_string(*number - 1)};
  }
  const bool is_device = device.front() >= 'a' && device.front() <= 'z' &&
                         device.find_first_of("0123456789") != device.npos;
  return is_device ? std::optional(HostDevice{std::string(host), std::string(device)})
                   : std::nullopt;
}

}  // namespace muster
