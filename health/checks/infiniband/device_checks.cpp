#include "health/checks/infiniband/device_checks.h"

#include <algorithm>
#include <map>
#include <set>

#include "health/checks/infiniband/port_finding.h"
#include "health/checks/infiniband/port_text.h"
#include "health/checks/infiniband/sources.h"
#include "health/model/check.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

struct PortPresence {
  std::size_t expected = 0;
  std::vector<std::string> missing;
};

void add_presence(PortPresence& presence, const std::string& pattern, const HealthProfile& profile,
                  const std::set<std::string>& present) {
  const auto fits = [&](const std::string& name) { return fits_pattern(pattern, name); };
  const auto names = names_of_pattern(pattern);
  if (!names) {
    const auto found = static_cast<std::size_t>(std::ranges::count_if(present, fits));
    presence.expected += std::max<std::size_t>(found, 1);
    if (found == 0) presence.missing.push_back(pattern);
    return;
  }
  for (const std::string& name : *names) {
    const bool is_excluded_device =
        is_excluded(profile, "ib.devices", name) ||
        is_excluded(profile, "ib.devices", name.substr(0, name.find(':')));
    if (is_excluded_device) continue;
    ++presence.expected;
    if (!present.contains(name)) presence.missing.push_back(name);
  }
}

// Ports and devices: a profile may name either.
std::set<std::string> present_names(const SourceFiles& files) {
  std::set<std::string> present;
  for (const InfinibandPort& port : find_ports(files)) {
    if (is_virtual_function(files, port.device)) continue;
    present.insert(port.name());
    present.insert(port.device);
  }
  return present;
}

// Nothing was read at all, or the folder of devices could not be.
std::optional<std::string> why_unread(const SourceFiles& files) {
  const FileReading& root = files.reading(infiniband_root);
  if (!root.ok() && !root.is_missing) return std::string(infiniband_root) + ": " + root.error;
  const auto is_read = [](const auto& file) { return file.second.ok(); };
  if (std::ranges::any_of(files.all(), is_read)) return std::nullopt;
  return "no file of the node could be read";
}

HealthFinding judge_openable(const SourceFiles& files, const HealthProfile&,
                             const InfinibandPort& port) {
  HealthFinding finding = device_finding("ib.chardev", port, "");
  finding.source = "/dev/infiniband";
  finding.expected = "opens";
  const std::string verbs = "/sys/class/infiniband_verbs";
  for (const std::string& name : files.names_below(verbs)) {
    if (files.text(verbs + "/" + name + "/ibdev") != port.device) continue;
    finding.source = "/dev/infiniband/" + name;
    const FileReading& opened = files.reading(finding.source);
    finding.value = opened.ok() ? "opens" : opened.error;
    if (opened.ok()) return finding;
    const bool is_denied = opened.is_missing || opened.error.starts_with("Permission denied");
    return is_denied ? as_failed(std::move(finding)) : as_unreadable(std::move(finding), opened);
  }
  finding.value = "none";
  finding.evidence.push_back(verbs + " has none of " + port.device + ": load ib_uverbs");
  return as_failed(std::move(finding));
}

// Speed or width: a slot that gives less than the device could take is told by limits.
HealthFinding judge_pcie_part(const SourceFiles& files, HealthFinding finding,
                              const InfinibandPort& port, const std::string& part, double limit) {
  const std::string now_path = infiniband_device_path(port.device, "device/current_link_" + part);
  const std::string max_path = infiniband_device_path(port.device, "device/max_link_" + part);
  const auto parse = [&](const std::string& path) -> std::optional<double> {
    if (part == "speed") return parse_gt_per_s(files.text(path).value_or(""));
    const auto lanes = files.number(path);
    return lanes && *lanes > 0 ? std::optional(static_cast<double>(*lanes)) : std::nullopt;
  };
  std::optional<double> wanted;
  if (limit > 0) wanted = limit;
  for (const std::string& path : {max_path, now_path}) {
    if (path == max_path && wanted) continue;
    finding.source = path;
    const FileReading& read = files.reading(path);
    if (!read.ok()) return as_unreadable(std::move(finding), read);
    if (!parse(path)) return as_not_understood(std::move(finding), read.text);
    if (path == max_path) wanted = parse(path);
  }
  finding.value = shown_number(*parse(now_path));
  finding.expected = ">= " + shown_number(*wanted);
  finding.unit = part == "speed" ? "GT/s" : "lanes";
  return *parse(now_path) >= *wanted ? finding : as_failed(std::move(finding));
}

HealthFinding judge_pcie(const SourceFiles& files, const HealthProfile& profile,
                         const InfinibandPort& port) {
  const HealthFinding finding = device_finding("ib.pcie", port, "device/current_link_width");
  HealthFinding width =
      judge_pcie_part(files, finding, port, "width", limit_of(profile, finding.check, "width", 0));
  if (width.status == CheckStatus::fail) return width;
  HealthFinding speed = judge_pcie_part(files, finding, port, "speed",
                                        limit_of(profile, finding.check, "speed_gt_per_s", 0));
  return speed.status == CheckStatus::pass ? width : speed;
}

// Of RFC 2863, as the kernel words them, but for "unknown".
bool is_operational_state(std::string_view text) {
  constexpr std::string_view states[] = {"up",      "down",   "notpresent", "lowerlayerdown",
                                         "testing", "dormant"};
  return std::ranges::find(states, text) != std::end(states);
}

HealthFinding judge_netdev(const SourceFiles& files, const HealthProfile&,
                           const InfinibandPort& port) {
  HealthFinding finding = device_finding("ib.netdev", port, "device/net");
  finding.expected = "up";
  for (const std::string& name : net_interfaces(files, port.device)) {
    const std::string folder = infiniband_device_path(port.device, "device/net/" + name);
    finding.source = folder + "/operstate";
    const FileReading& read = files.reading(finding.source);
    const std::string_view state = files.text(finding.source).value_or("");
    if (!read.ok()) return as_unreadable(std::move(finding), read);
    if (!is_operational_state(state)) return as_not_understood(std::move(finding), read.text);
    finding.value = state;
    const auto changes = files.number(folder + "/carrier_changes");
    if (changes) finding.evidence.push_back(name + " carrier_changes " + std::to_string(*changes));
    if (state != "up") return as_failed(std::move(finding));
  }
  finding.value = "up";
  return finding;
}

bool has_something_to_judge(const SourceFiles& files, std::string_view check,
                            const InfinibandPort& port) {
  return check != "ib.netdev" || !net_interfaces(files, port.device).empty();
}

// Adapters of one kind that differ from most of them.
void judge_firmware(const SourceFiles& files, const HealthProfile& profile,
                    std::span<const InfinibandPort> ports, std::vector<HealthFinding>& findings) {
  std::map<std::string, std::map<std::string, std::size_t>> by_board;
  const std::vector<InfinibandVersions> all = infiniband_versions(files, ports);
  for (const InfinibandVersions& one : all) {
    if (!one.board.empty() && !one.firmware.empty()) ++by_board[one.board][one.firmware];
  }
  for (const InfinibandVersions& one : all) {
    const auto& seen = by_board[one.board];
    const auto usual = std::ranges::max_element(seen, {}, [](const auto& of) { return of.second; });
    std::size_t told = 0;
    for (const auto& [firmware, count] : seen) told += count;
    const bool is_most = usual != seen.end() && told > 1 && usual->second * 2 > told;
    if (!is_most || !is_judged(profile, "ib.fw", {one.device, "", ""})) continue;
    HealthFinding finding = make_finding("ib.fw", one.device, CheckStatus::pass);
    finding.source = infiniband_device_path(one.device, "fw_ver");
    finding.value = one.firmware;
    finding.expected = usual->first;
    findings.push_back(one.firmware == usual->first ? std::move(finding)
                                                    : as_failed(std::move(finding)));
  }
}

// One port of each device.
std::vector<InfinibandPort> first_ports(std::span<const InfinibandPort> ports) {
  std::vector<InfinibandPort> first;
  for (const InfinibandPort& port : ports) {
    if (first.empty() || first.back().device != port.device) first.push_back(port);
  }
  return first;
}

}  // namespace

std::vector<HealthFinding> judge_port_presence(const SourceFiles& files,
                                               const HealthProfile& profile) {
  if (profile.ib.ports.empty()) return {};
  if (setting_of(profile, "ib.devices").mode == CheckMode::off) return {};
  HealthFinding finding = make_finding("ib.devices", "", CheckStatus::pass);
  finding.unit = "ports";
  if (const auto why = why_unread(files)) return {as_unknown(std::move(finding), *why)};
  const auto present = present_names(files);
  PortPresence presence;
  for (const std::string& pattern : profile.ib.ports) {
    add_presence(presence, pattern, profile, present);
  }
  if (presence.expected == 0) return {};
  for (const std::string& name : presence.missing) {
    finding.evidence.push_back(name + " is missing");
  }
  finding.value = std::to_string(presence.expected - presence.missing.size());
  finding.expected = std::to_string(presence.expected);
  if (!presence.missing.empty()) finding = as_failed(std::move(finding));
  return {with_grace(std::move(finding), files, profile)};
}

std::vector<HealthFinding> judge_devices(const SourceFiles& files, const HealthProfile& profile,
                                         std::span<const InfinibandPort> ports) {
  struct Check {
    std::string_view id;
    bool is_of_link;
    HealthFinding (*judge)(const SourceFiles&, const HealthProfile&, const InfinibandPort&);
  };
  constexpr Check checks[] = {{"ib.chardev", false, judge_openable},
                              {"ib.pcie", false, judge_pcie},
                              {"ib.netdev", true, judge_netdev}};
  std::vector<HealthFinding> findings;
  for (const InfinibandPort& port : first_ports(ports)) {
    for (const Check& check : checks) {
      if (!is_judged(profile, check.id, port)) continue;
      if (!has_something_to_judge(files, check.id, port)) continue;
      HealthFinding finding = check.judge(files, profile, port);
      if (check.is_of_link) finding = with_grace(std::move(finding), files, profile);
      findings.push_back(std::move(finding));
    }
  }
  judge_firmware(files, profile, ports, findings);
  return findings;
}

std::vector<InfinibandVersions> infiniband_versions(const SourceFiles& files,
                                                    std::span<const InfinibandPort> ports) {
  const auto said = [&](const InfinibandPort& port, std::string_view leaf) {
    return std::string(files.text(infiniband_device_path(port.device, leaf)).value_or(""));
  };
  std::vector<InfinibandVersions> versions;
  for (const InfinibandPort& port : first_ports(ports)) {
    versions.push_back({port.device, port.guid, said(port, "fw_ver"), said(port, "board_id"),
                        said(port, "hca_type")});
  }
  return versions;
}

}  // namespace muster
