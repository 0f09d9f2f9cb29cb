// The InfiniBand devices and ports of a node, found in its files, and which of them are judged. A
// profile names the ports that a node of its kind has; without names nothing is judged. Pure.
#pragma once

#include <chrono>
#include <optional>
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

}  // namespace muster
