// Patterns of names of devices and checks: `*` is any text, `[a-b]` or `[abc]` one character. And
// addresses of PCI functions, in the one form that sysfs uses: "0000:3b:00.0". Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

bool fits_pattern(std::string_view pattern, std::string_view text);
// The names that a pattern without `*` stands for: "mlx5_[0-7]:1" for 8. Nothing when it has one,
// is none, or stands for more than any node has.
std::optional<std::vector<std::string>> names_of_pattern(std::string_view pattern);

// Takes what drivers and NVML write: "PCI:0000:3b:00", "00000000:3B:00.0", "3b:00.0". A function
// that is not named is 0, a domain that is not named 0000. Nothing when it is no address.
std::optional<std::string> normal_pci_address(std::string_view text);

// The first address with its domain that stands in a text.
std::optional<std::string> find_pci_address(std::string_view text);

}  // namespace muster
