// The InfiniBand devices and ports of a node, found in its files, and which of them are judged. A
// profile names the ports that a node of its kind has; without names nothing is judged. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/check.h"

namespace muster {

struct InfinibandPort {
  std::string device;  // "mlx5_3"
  std::string number;  // "1"
  std::string guid;    // of the device, which it keeps in another host; empty: unreadable
  std::string name() const { return device + ":" + number; }
  std::string path(std::string_view leaf) const;
  friend bool operator==(const InfinibandPort&, const InfinibandPort&) = default;
};

std::string infiniband_device_path(std::string_view device, std::string_view leaf);

// All ports, sorted by name, those of virtual functions as well.
std::vector<InfinibandPort> find_ports(const SourceFiles& files);
bool is_virtual_function(const SourceFiles& files, std::string_view device);
// Whether a default route leaves by it, directly, by a VLAN or by a bond.
bool is_management_device(const SourceFiles& files, std::string_view device);
std::vector<std::string> net_interfaces(const SourceFiles& files, std::string_view device);
// "0000:1a:00.0"
std::optional<std::string> pci_address(const SourceFiles& files, std::string_view device);

// The ports that the profile names. No virtual functions, which share the port of another device;
// no management devices, unless the profile names them without a `*`; none of `refusing`, devices
// whose driver logs an error whenever their registers are read.
std::vector<InfinibandPort> judged_ports(const SourceFiles& files, const HealthProfile& profile,
                                         const std::vector<std::string>& refusing = {});
// Whether the check is on and not excluded on the device or port.
bool is_judged(const HealthProfile& profile, std::string_view check, const InfinibandPort& port);

// A limit of every check of a link.
inline constexpr CheckLimit boot_grace{"boot_grace_s", "s", 300};
// How long after boot links are still coming up, so that nothing is said against them.
std::chrono::seconds link_grace(const HealthProfile& profile, std::string_view check);

// What the files of a port say, from their text: as the kernel's drivers/infiniband/core/sysfs.c
// writes them. Nothing where the text is not of the form, be it cut, huge or binary.

// "4: ACTIVE", "5: LinkUp"
struct NumberedState {
  int number = 0;
  std::string word;
  friend bool operator==(const NumberedState&, const NumberedState&) = default;
};
std::optional<NumberedState> parse_numbered_state(std::string_view text);

// "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X)"
struct LinkRate {
  double gbps = 0;
  int lanes = 0;
  std::string speed;  // "NDR"; empty: SDR, or the driver does not say
  friend bool operator==(const LinkRate&, const LinkRate&) = default;
};
std::optional<LinkRate> parse_link_rate(std::string_view text);
// "4X"
std::optional<int> parse_lanes(std::string_view text);

// "32.0 GT/s PCIe"
std::optional<double> parse_gt_per_s(std::string_view text);

// Decimal; a 64-bit counter needs all its bits.
std::optional<std::uint64_t> parse_counter(std::string_view text);

// "0xffff": the upper bit makes a full member of the partition of the 15 others.
struct PartitionKey {
  int partition = 0;
  bool is_full_member = false;
  friend bool operator==(const PartitionKey&, const PartitionKey&) = default;
};
std::optional<PartitionKey> parse_partition_key(std::string_view text);

// "fe80:0000:0000:0000:b83f:d203:00c5:0001": the port's half, behind the prefix of the subnet.
std::optional<std::uint64_t> parse_global_id(std::string_view text);

// The interfaces that the routes to everywhere leave by, of /proc/net/route.
std::set<std::string> parse_default_interfaces(std::string_view route);

// A short printable form for a message: cut after 60 characters.
std::string shown_text(std::string_view text);

// The files of a node that the InfiniBand checks are computed from, as patterns for a reader: `*`
// stands for one component of the path, or for the rest of one. Reading them touches neither the
// fabric nor a job; counters make the driver ask the device.

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
