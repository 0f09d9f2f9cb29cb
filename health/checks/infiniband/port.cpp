#include "health/checks/infiniband/port.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "health/checks/infiniband/port_text.h"
#include "health/checks/infiniband/sources.h"
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

}  // namespace muster
