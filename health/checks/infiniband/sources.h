// The files of a node that the InfiniBand checks are computed from, as patterns for a reader: `*`
// stands for one component of the path, or for the rest of one. Reading them touches neither the
// fabric nor a job; counters make the driver ask the device.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

inline constexpr std::string_view infiniband_root = "/sys/class/infiniband";

// Everything.
std::vector<std::string> infiniband_sources();
// Parts of it, for what is read often; each tells devices and ports as well.
std::vector<std::string> infiniband_state_sources();
std::vector<std::string> infiniband_counter_sources();
// What neither of them holds: keys, versions, slots.
std::span<const std::string_view> infiniband_other_sources();

// What changes when a link does, of devices that are known; and what tells devices and ports.
std::span<const std::string_view> infiniband_link_sources();
std::span<const std::string_view> infiniband_device_sources();

// Opened for reading and writing as the user who starts ranks, closed, never read: whoever gives
// them to the checks adds an empty text, or why it could not be opened. Not issm*: opening one
// tells the fabric that a subnet manager lives here.
std::span<const std::string_view> infiniband_device_nodes();

}  // namespace muster
