// What the files of a port say, from their text: as the kernel's drivers/infiniband/core/sysfs.c
// writes them. Nothing where the text is not of the form, be it cut, huge or binary.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace muster {

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

}  // namespace muster
