// An InfiniBand fabric as a tool on a management node told it: nodes, ports and what is cabled to
// what. Plain data. A golden topology is the same noun, from a text that was kept.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

// How a reading went. What is absent from a text that is not whole is unknown, not gone.
struct ToolReading {
  std::string error;  // empty: the tool answered
  bool is_cut = false;
  int skipped_lines = 0;
  std::vector<std::string> complaints;  // the first few
  bool is_whole() const { return error.empty() && !is_cut && skipped_lines == 0; }
};

// A port. The GUID is the one that iblinkinfo and ibqueryerrors print: a switch's own, and of an
// adapter that of the port, so that an adapter of two ports has two.
struct FabricEnd {
  std::uint64_t guid = 0;
  int port = 0;
  friend auto operator<=>(const FabricEnd&, const FabricEnd&) = default;
};

enum class FabricNodeKind { unknown, adapter, switch_node, router };

struct FabricNode {
  std::string name;  // the node description: "n17 mlx5_3", "leaf1"
  FabricNodeKind kind = FabricNodeKind::unknown;
  friend bool operator==(const FabricNode&, const FabricNode&) = default;
};

enum class PortState { unknown, down, initialize, armed, active };

struct FabricPort {
  PortState state = PortState::unknown;
  std::string physical;  // "LinkUp", "Polling", "Disabled"; empty: not told
  std::optional<int> lanes;
  std::optional<double> lane_gbps;  // by name: HDR is 50
  std::optional<FabricEnd> peer;
  friend bool operator==(const FabricPort&, const FabricPort&) = default;
};

struct Fabric {
  std::map<std::uint64_t, FabricNode> nodes;
  std::map<FabricEnd, FabricPort> ports;
  ToolReading reading;
};

// The two ends of a cable, the smaller first.
using FabricLink = std::pair<FabricEnd, FabricEnd>;
std::set<FabricLink> links_of(const Fabric& fabric);

// Nothing when the tool said nothing of it.
const FabricNode* find_node(const Fabric& fabric, std::uint64_t guid);
const FabricPort* find_port(const Fabric& fabric, const FabricEnd& end);

// Adds to what is known of a node; an empty name or an unknown kind takes nothing away.
void note_node(Fabric& fabric, std::uint64_t guid, std::string_view name, FabricNodeKind kind);

// "leaf1[7]"; by its GUID where no name is known.
std::string text_of(const Fabric& fabric, const FabricEnd& end);
std::string text_of_guid(std::uint64_t guid);
// "Down/Polling"
std::string text_of_state(const FabricPort& port);
std::string_view word_of(PortState state);

// Gb/s of a lane by the speed's name ("HDR": 50) or by the signalling rate (53.125: 50).
std::optional<double> lane_gbps_named(std::string_view speed);
double lane_gbps_signalled(double gbps);
// "400", "2.5": without an exponent, and no more digits than it has.
std::string decimal_text(double value);

struct HostDevice {
  std::string host;    // "n17"
  std::string device;  // "mlx5_3"
  friend bool operator==(const HostDevice&, const HostDevice&) = default;
};
// "n17 mlx5_3", as rdma-ndd writes it, and the older "n17 HCA-4", which counts from 1. Nothing for
// the description that an adapter leaves the factory with, for switches and aggregation nodes.
std::optional<HostDevice> host_device_of(std::string_view description);

}  // namespace muster
