#include "health/checks/infiniband/port.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <vector>

#include "health/checks/infiniband/infiniband_checks.h"
#include "health/model/source_files.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// The interfaces below `name`: of a VLAN its parent, of a bond its members, else itself.
std::set<std::string> carriers_of(const SourceFiles& files, const std::string& name) {
  const std::string parent = name.substr(0, name.find('.'));
  std::set<std::string> carriers{name, parent};
  const auto members = files.text("/sys/class/net/" + parent + "/bonding/slaves");
  for (const std::string_view member : words_in(members.value_or(""))) carriers.emplace(member);
  return carriers;
}

bool is_named_by(std::string_view pattern, const InfinibandPort& port) {
  const bool names_a_port = pattern.find(':') != std::string_view::npos;
  return fits_pattern(pattern, names_a_port ? port.name() : port.device);
}

std::optional<double> positive_decimal(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const bool is_number = error == std::errc() && stop == end && std::isfinite(value) && value > 0;
  return is_number ? std::optional(value) : std::nullopt;
}

bool is_printable(char c) {
  return c >= ' ' && c <= '~';
}

bool is_default_route(const std::vector<std::string_view>& words) {
  constexpr unsigned route_is_up = 0x1;
  constexpr unsigned route_rejects = 0x200;
  if (words.size() < 8 || words[1] != "00000000" || words[7] != "00000000") return false;
  const auto flags = whole_number<unsigned>(words[3], 16);
  return flags && (*flags & route_is_up) != 0 && (*flags & route_rejects) == 0;
}

constexpr std::string_view sources_of_links[] = {"/sys/class/infiniband/*/ports/*/state",
                                                 "/sys/class/infiniband/*/ports/*/phys_state",
                                                 "/sys/class/infiniband/*/ports/*/rate"};
constexpr std::string_view sources_of_states[] = {
    "/sys/class/infiniband/*/ports/*/lid",
    "/sys/class/infiniband/*/ports/*/sm_lid",
    "/sys/class/infiniband/*/device/net/*/operstate",
    "/sys/class/infiniband/*/device/net/*/carrier_changes",
};
constexpr std::string_view sources_of_devices[] = {
    "/proc/uptime",
    "/proc/sys/kernel/random/boot_id",
    "/proc/net/route",
    "/sys/class/net/*/bonding/slaves",
    "/sys/class/infiniband/*/node_guid",
    "/sys/class/infiniband/*/device/uevent",
    "/sys/class/infiniband/*/device/physfn/vendor",
    "/sys/class/infiniband/*/device/net/*/address",
    "/sys/class/infiniband/*/ports/*/link_layer",
};
constexpr std::string_view sources_of_rest[] = {
    // A table has 128 keys, of which a site uses the first few.
    "/sys/class/infiniband/*/ports/*/pkeys/0",
    "/sys/class/infiniband/*/ports/*/pkeys/1",
    "/sys/class/infiniband/*/ports/*/pkeys/2",
    "/sys/class/infiniband/*/ports/*/pkeys/3",
    "/sys/class/infiniband/*/ports/*/gids/0",
    "/sys/class/infiniband/*/fw_ver",
    "/sys/class/infiniband/*/board_id",
    "/sys/class/infiniband/*/hca_type",
    "/sys/class/infiniband/*/device/current_link_speed",
    "/sys/class/infiniband/*/device/current_link_width",
    "/sys/class/infiniband/*/device/max_link_speed",
    "/sys/class/infiniband/*/device/max_link_width",
    "/sys/class/infiniband_verbs/*/ibdev",
};
constexpr std::string_view opened_nodes[] = {"/dev/infiniband/uverbs*"};

std::vector<std::string> joined_sources(
    std::initializer_list<std::span<const std::string_view>> parts) {
  std::vector<std::string> all;
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

void add_counters(std::vector<std::string>& sources) {
  for (const std::string_view file : infiniband_counter_files())
    sources.push_back("/sys/class/infiniband/*/ports/*/" + std::string(file));
}

}  // namespace

std::string infiniband_device_path(std::string_view device, std::string_view leaf) {
  return std::string(infiniband_root) + "/" + std::string(device) + "/" + std::string(leaf);
}

std::string InfinibandPort::path(std::string_view leaf) const {
  return infiniband_device_path(device, "ports/" + number + "/" + std::string(leaf));
}

std::vector<InfinibandPort> find_ports(const SourceFiles& files) {
  std::vector<InfinibandPort> ports;
  for (const std::string& device : files.names_below(infiniband_root)) {
    const std::string guid(files.text(infiniband_device_path(device, "node_guid")).value_or(""));
    for (const std::string& number : files.names_below(infiniband_device_path(device, "ports"))) {
      if (whole_number<unsigned>(number)) ports.push_back({device, number, guid});
    }
  }
  return ports;
}

bool is_virtual_function(const SourceFiles& files, std::string_view device) {
  const std::string physical = infiniband_device_path(device, "device/physfn");
  const auto is_there = [&](const std::string& name) {
    return !files.reading(physical + "/" + name).is_missing;
  };
  return std::ranges::any_of(files.names_below(physical), is_there);
}

std::vector<std::string> net_interfaces(const SourceFiles& files, std::string_view device) {
  return files.names_below(infiniband_device_path(device, "device/net"));
}

bool is_management_device(const SourceFiles& files, std::string_view device) {
  const auto interfaces = net_interfaces(files, device);
  const auto routes = parse_default_interfaces(files.text("/proc/net/route").value_or(""));
  return std::ranges::any_of(routes, [&](const std::string& route) {
    const auto carriers = carriers_of(files, route);
    return std::ranges::any_of(interfaces,
                               [&](const std::string& name) { return carriers.contains(name); });
  });
}

std::optional<std::string> pci_address(const SourceFiles& files, std::string_view device) {
  const auto uevent = files.text(infiniband_device_path(device, "device/uevent"));
  const auto address = uevent ? value_in_lines(*uevent, "PCI_SLOT_NAME", '=') : std::nullopt;
  return address ? std::optional<std::string>(trimmed(*address)) : std::nullopt;
}

std::vector<InfinibandPort> judged_ports(const SourceFiles& files, const HealthProfile& profile,
                                         const std::vector<std::string>& refusing) {
  const auto is_wanted = [&](const InfinibandPort& port) {
    bool is_named = false;
    bool is_named_outright = false;
    for (const std::string& pattern : profile.ib.ports) {
      if (!is_named_by(pattern, port)) continue;
      is_named = true;
      is_named_outright = is_named_outright || pattern.find('*') == std::string::npos;
    }
    if (!is_named || is_virtual_function(files, port.device)) return false;
    if (std::ranges::find(refusing, port.device) != refusing.end()) return false;
    return is_named_outright || !is_management_device(files, port.device);
  };
  std::vector<InfinibandPort> ports;
  std::ranges::copy_if(find_ports(files), std::back_inserter(ports), is_wanted);
  return ports;
}

bool is_judged(const HealthProfile& profile, std::string_view check, const InfinibandPort& port) {
  return !is_off(profile, check, port.name());
}

std::chrono::seconds link_grace(const HealthProfile& profile, std::string_view check) {
  const double grace_s = limit_of(profile, check, boot_grace.name, *boot_grace.usual);
  return std::chrono::seconds(std::llround(std::clamp(grace_s, 0.0, 86400.0)));
}

std::optional<NumberedState> parse_numbered_state(std::string_view text) {
  text = trimmed(text);
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.size() > 64) return std::nullopt;
  const auto number = whole_number<int>(text.substr(0, colon));
  const std::string_view word = trimmed(text.substr(colon + 1));
  if (!number || *number < 0 || word.empty()) return std::nullopt;
  if (!std::ranges::all_of(word, is_printable)) return std::nullopt;
  return NumberedState{*number, std::string(word)};
}

std::optional<int> parse_lanes(std::string_view text) {
  if (!text.ends_with('X')) return std::nullopt;
  const auto lanes = whole_number<int>(text.substr(0, text.size() - 1));
  return lanes && *lanes > 0 ? lanes : std::nullopt;
}

std::optional<LinkRate> parse_link_rate(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 64) return std::nullopt;
  const auto words = words_in(text);
  if (words.size() < 3 || words.size() > 4 || words[1] != "Gb/sec") return std::nullopt;
  if (!words[2].starts_with('(') || !words.back().ends_with(')')) return std::nullopt;
  std::string_view width = words[2].substr(1);
  std::string_view speed = words.size() == 4 ? words[3] : std::string_view();
  (speed.empty() ? width : speed).remove_suffix(1);
  const auto gbps = positive_decimal(words[0]);
  const auto lanes = parse_lanes(width);
  if (!gbps || !lanes || !std::ranges::all_of(speed, is_printable)) return std::nullopt;
  return LinkRate{*gbps, *lanes, std::string(speed)};
}

std::optional<double> parse_gt_per_s(std::string_view text) {
  const auto words = words_in(trimmed(text).substr(0, 64));
  if (words.size() < 2 || words[1] != "GT/s") return std::nullopt;
  return positive_decimal(words[0]);
}

std::optional<std::uint64_t> parse_counter(std::string_view text) {
  return whole_number<std::uint64_t>(trimmed(text));
}

std::optional<PartitionKey> parse_partition_key(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with("0x")) return std::nullopt;
  const auto key = whole_number<std::uint16_t>(text.substr(2), 16);
  if (!key) return std::nullopt;
  return PartitionKey{*key & 0x7fff, (*key & 0x8000) != 0};
}

std::optional<std::uint64_t> parse_global_id(std::string_view text) {
  text = trimmed(text);
  constexpr std::size_t length = 39;  // eight groups of four digits
  if (text.size() != length) return std::nullopt;
  std::uint64_t id = 0;
  for (std::size_t group = 0; group < 8; ++group) {
    const std::size_t at = group * 5;
    if (group > 0 && text[at - 1] != ':') return std::nullopt;
    const auto digits = whole_number<std::uint16_t>(text.substr(at, 4), 16);
    if (!digits) return std::nullopt;
    id = id << 16 | *digits;
  }
  return id;
}

std::set<std::string> parse_default_interfaces(std::string_view route) {
  std::set<std::string> interfaces;
  while (!route.empty()) {
    const auto words = words_in(take_until(route, '\n').substr(0, 256));
    if (is_default_route(words)) interfaces.emplace(words.front());
  }
  return interfaces;
}

std::string shown_text(std::string_view text) {
  constexpr std::size_t most = 60;
  text = trimmed(text);
  std::string form = "'";
  for (const char c : text.substr(0, most)) form += is_printable(c) ? c : '?';
  return form + (text.size() > most ? "…'" : "'");
}

std::vector<std::string> infiniband_sources() {
  std::vector<std::string> sources =
      joined_sources({sources_of_links, sources_of_states, sources_of_devices, sources_of_rest});
  add_counters(sources);
  return sources;
}

std::vector<std::string> infiniband_state_sources() {
  return joined_sources({sources_of_links, sources_of_states, sources_of_devices});
}

std::vector<std::string> infiniband_counter_sources() {
  std::vector<std::string> sources = joined_sources({sources_of_devices});
  add_counters(sources);
  return sources;
}

std::span<const std::string_view> infiniband_other_sources() {
  return sources_of_rest;
}

std::span<const std::string_view> infiniband_link_sources() {
  return sources_of_links;
}

std::span<const std::string_view> infiniband_device_sources() {
  return sources_of_devices;
}

std::span<const std::string_view> infiniband_device_nodes() {
  return opened_nodes;
}

}  // namespace muster
