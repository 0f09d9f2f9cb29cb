// Addresses of PCI functions as text, in the one form that sysfs uses: "0000:3b:00.0".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// Takes what drivers and NVML write: "PCI:0000:3b:00", "00000000:3B:00.0", "3b:00.0". A function
// that is not named is 0, a domain that is not named 0000. Nothing when it is no address.
std::optional<std::string> normal_pci_address(std::string_view text);

// The first address with its domain that stands in a text.
std::optional<std::string> find_pci_address(std::string_view text);

}  // namespace muster
