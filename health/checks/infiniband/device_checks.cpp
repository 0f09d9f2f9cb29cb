#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "health/checks/infiniband/infiniband_checks.h"
#include "health/checks/infiniband/port.h"
#include "health/model/baseline.h"
#include "health/model/check_words.h"
#include "health/model/majority.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/text.h"

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
    if (is_excluded(profile, "ib.devices", name)) continue;
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

std::optional<HealthFinding> judge_openable(const CheckInput& input, const InfinibandPort& port) {
  HealthFinding finding = device_finding(input, port, "", "opens");
  finding.source = "/dev/infiniband";
  const std::string verbs = "/sys/class/infiniband_verbs";
  for (const std::string& name : input.files.names_below(verbs)) {
    if (input.files.text(verbs + "/" + name + "/ibdev") != port.device) continue;
    finding.source = "/dev/infiniband/" + name;
    const FileReading& opened = input.files.reading(finding.source);
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
HealthFinding judge_pcie_part(const CheckInput& input, HealthFinding finding,
                              const InfinibandPort& port, const std::string& part, double limit) {
  const auto read = [&](const std::string& kind) {
    finding.source = infiniband_device_path(port.device, "device/" + kind + "_link_" + part);
    return read_as(input, finding, [&](std::string_view text) -> std::optional<double> {
      if (part == "speed") return parse_gt_per_s(text);
      const auto lanes = decimal_or_hex(trimmed(text));
      return lanes && *lanes > 0 ? std::optional(static_cast<double>(*lanes)) : std::nullopt;
    });
  };
  const auto wanted = limit > 0 ? std::optional(limit) : read("max");
  if (!wanted) return finding;
  const auto now = read("current");
  if (!now) return finding;
  finding.value = shown_number(*now);
  finding.expected = ">= " + shown_number(*wanted);
  finding.unit = part == "speed" ? "GT/s" : "lanes";
  return *now >= *wanted ? finding : as_failed(std::move(finding));
}

std::optional<HealthFinding> judge_pcie(const CheckInput& input, const InfinibandPort& port) {
  const HealthFinding finding = device_finding(input, port, "device/current_link_width");
  HealthFinding width =
      judge_pcie_part(input, finding, port, "width", input.limit_if_any("width").value_or(0));
  if (width.status == CheckStatus::fail) return width;
  HealthFinding speed = judge_pcie_part(input, finding, port, "speed",
                                        input.limit_if_any("speed_gt_per_s").value_or(0));
  return speed.status == CheckStatus::pass ? width : speed;
}

// Of RFC 2863, as the kernel words them, but for "unknown".
std::optional<std::string> operational_state(std::string_view text) {
  constexpr std::string_view states[] = {"up",      "down",   "notpresent", "lowerlayerdown",
                                         "testing", "dormant"};
  const auto found = std::ranges::find(states, trimmed(text));
  return found == std::end(states) ? std::nullopt : std::optional<std::string>(*found);
}

std::optional<HealthFinding> judge_netdev(const CheckInput& input, const InfinibandPort& port) {
  HealthFinding finding = device_finding(input, port, "device/net", "up");
  const auto interfaces = net_interfaces(input.files, port.device);
  if (interfaces.empty()) return std::nullopt;
  for (const std::string& name : interfaces) {
    const std::string folder = infiniband_device_path(port.device, "device/net/" + name);
    finding.source = folder + "/operstate";
    const auto state = read_as(input, finding, operational_state);
    if (!state) return finding;
    finding.value = *state;
    const auto changes = input.files.number(folder + "/carrier_changes");
    if (changes) finding.evidence.push_back(name + " carrier_changes " + std::to_string(*changes));
    if (*state != "up") return with_grace(as_failed(std::move(finding)), input);
  }
  finding.value = "up";
  return finding;
}

// Adapters of one kind that differ from most of them.
std::vector<HealthFinding> judge_firmware(const CheckInput& input) {
  std::vector<HealthFinding> findings;
  std::map<std::string, std::vector<std::string>> by_board;
  const std::vector<InfinibandVersions> all = infiniband_versions(input.files, input.ib->ports);
  for (const InfinibandVersions& one : all) {
    if (!one.board.empty() && !one.firmware.empty()) by_board[one.board].push_back(one.firmware);
  }
  for (const InfinibandVersions& one : all) {
    const auto& told = by_board[one.board];
    const auto usual = said_by_most(told);
    if (!usual || told.size() < 2 ||
        !is_judged(input.profile, input.check().id, {one.device, "", ""}))
      continue;
    HealthFinding finding =
        make_finding(input.check(), one.device, CheckStatus::pass, one.firmware, *usual);
    finding.source = infiniband_device_path(one.device, "fw_ver");
    findings.push_back(one.firmware == *usual ? std::move(finding) : as_failed(std::move(finding)));
  }
  return findings;
}

std::vector<HealthFinding> judge_port_presence(const CheckInput& input) {
  const HealthProfile& profile = input.profile;
  if (profile.ib.ports.empty()) return {};
  if (setting_of(profile, input.check().id).mode == CheckMode::off) return {};
  HealthFinding finding = make_finding(input.check(), "", CheckStatus::pass);
  finding.unit = "ports";
  if (const auto why = why_unread(input.files)) return {as_unknown(std::move(finding), *why)};
  const auto present = present_names(input.files);
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
  return {with_grace(std::move(finding), input)};
}

// Of a port that a healthy node has in use; nothing else is learned.
struct LearnedPort {
  std::string name;  // "mlx5_0:1"
  bool is_infiniband = true;
  int rate_gbps = 0;
  std::string width{};  // "4X"
};

std::optional<LearnedPort> learn_port(BaselineNode& node, const InfinibandPort& port) {
  constexpr int active = 4;
  LearnedPort learned{.name = port.name()};
  learned.is_infiniband = node.files.text(port.path("link_layer")) == "InfiniBand";
  if (!learned.is_infiniband) return learned;
  const FileReading& read = node.files.reading(port.path("state"));
  const auto state = parse_numbered_state(read.text);
  const auto rate = parse_link_rate(node.files.text(port.path("rate")).value_or(""));
  if (!state || state->number != active || !rate) {
    node.leave_out("ib.ports", port.name() + " is " +
                                   (state       ? state->word
                                    : read.ok() ? "it says nothing that is known"
                                                : read.error) +
                                   ": a healthy node's port is ACTIVE");
    return std::nullopt;
  }
  learned.rate_gbps = static_cast<int>(std::lround(rate->gbps));
  learned.width = std::to_string(rate->lanes) + "X";
  return learned;
}

std::vector<LearnedPort> learn_each_port(BaselineNode& node) {
  std::vector<LearnedPort> ports;
  for (const InfinibandPort& port : find_ports(node.files)) {
    if (is_virtual_function(node.files, port.device) || !is_plain_text(port.name())) continue;
    if (is_management_device(node.files, port.device)) {
      node.leave_out("ib.ports", port.name() + " carries the default route");
    } else if (auto learned = learn_port(node, port)) {
      ports.push_back(*std::move(learned));
    }
  }
  return ports;
}

// The rate that most ports have, the higher one of two; a node may have slower ones for storage.
std::optional<int> usual_rate(const std::vector<LearnedPort>& ports) {
  std::map<int, int> ports_at;
  for (const LearnedPort& port : ports) {
    if (port.is_infiniband) ++ports_at[port.rate_gbps];
  }
  std::optional<int> best;
  for (const auto& [rate, count] : ports_at) {
    if (!best || count >= ports_at[*best]) best = rate;
  }
  return best;
}

void learn_ports(BaselineNode& node) {
  const auto ports = learn_each_port(node);
  HealthProfile& profile = node.profile;
  profile.ib.rate_gbps = usual_rate(ports);
  std::set<std::string> widths;
  for (const LearnedPort& port : ports) {
    const std::string name = literal_pattern(port.name);
    if (!port.is_infiniband) {
      profile.exclude.push_back({"ib.*", name, "not InfiniBand"});
    } else if (port.rate_gbps != profile.ib.rate_gbps) {
      profile.exclude.push_back({"ib.*", name, "another rate"});
    } else {
      profile.ib.ports.push_back(name);
      widths.insert(port.width);
    }
  }
  if (widths.size() == 1) profile.ib.width = *widths.begin();
  if (!profile.ib.ports.empty()) profile.required.emplace_back("ib.state");
}

// Numbers of the port states and physical states of the InfiniBand specification, volume 1,
// PortInfo.
constexpr int state_down = 1;
constexpr int state_init = 2;
constexpr int state_active = 4;
constexpr int state_last = 5;  // ACTIVE_DEFER
constexpr int physical_polling = 2;
constexpr int physical_disabled = 3;
constexpr int physical_link_up = 5;
constexpr int physical_last = 7;  // Phy Test

// One of `hard` is a failure as the row has it, any other but the wanted one a warning.
HealthFinding judge_numbered(const CheckInput& input, HealthFinding finding, int wanted, int last,
                             std::initializer_list<int> hard) {
  const auto state = read_as(input, finding, parse_numbered_state);
  if (!state) return finding;
  finding.value = std::to_string(state->number) + ": " + state->word;
  if (finding.value == finding.expected) return finding;
  if (state->word == "<unknown>" || state->number == wanted || state->number > last) {
    const std::string& text = input.files.reading(finding.source).text;
    return as_not_understood(std::move(finding), text);
  }
  const bool is_hard = std::ranges::find(hard, state->number) != hard.end();
  return is_hard ? as_failed(std::move(finding)) : as_failed(std::move(finding), only_warn);
}

// INIT, ARMED and ACTIVE_DEFER: the link is there, the subnet manager is not through with it.
HealthFinding judge_state(const CheckInput& input, const InfinibandPort& port) {
  HealthFinding finding = port_finding(input, port, "state", "4: ACTIVE");
  return judge_numbered(input, std::move(finding), state_active, state_last, {0, state_down});
}

// The others: asleep, in training, recovering.
HealthFinding judge_physical(const CheckInput& input, const InfinibandPort& port) {
  HealthFinding finding = port_finding(input, port, "phys_state", "5: LinkUp");
  return judge_numbered(input, std::move(finding), physical_link_up, physical_last,
                        {physical_polling, physical_disabled});
}

// Of a link that is down the driver tells some rate.
bool is_known_down(const SourceFiles& files, const InfinibandPort& port) {
  const auto state = parse_numbered_state(files.text(port.path("phys_state")).value_or(""));
  return state && state->number != physical_link_up;
}

HealthFinding judge_rate(const CheckInput& input, const InfinibandPort& port) {
  HealthFinding finding = port_finding(input, port, "rate");
  const int gbps = input.profile.ib.rate_gbps.value_or(0);
  const int lanes = parse_lanes(input.profile.ib.width.value_or("")).value_or(0);
  finding.unit = "Gb/s";
  finding.expected = ">= " + std::to_string(gbps);
  if (lanes > 0) finding.expected += " (" + std::to_string(lanes) + "X)";
  const auto rate = read_as(input, finding, parse_link_rate);
  if (!rate) return finding;
  finding.value = shown_number(rate->gbps) + " (" + std::to_string(rate->lanes) + "X)";
  if (is_known_down(input.files, port)) return as_unknown(std::move(finding), "the link is down");
  if (rate->gbps >= gbps && rate->lanes >= lanes) return finding;
  finding.evidence.push_back(std::string(input.files.text(finding.source).value_or("")));
  if (rate->lanes < lanes) finding.evidence.emplace_back("lanes are missing: see to the cable");
  return as_failed(std::move(finding));
}

HealthFinding judge_link_layer(const CheckInput& input, const InfinibandPort& port) {
  HealthFinding finding = port_finding(input, port, "link_layer", "InfiniBand");
  const auto layer = read_as(input, finding, [](std::string_view text) {
    const bool is_known = trimmed(text) == "InfiniBand" || trimmed(text) == "Ethernet";
    return is_known ? std::optional(std::string(trimmed(text))) : std::nullopt;
  });
  if (!layer) return finding;
  finding.value = *layer;
  return *layer == finding.expected ? finding : as_failed(std::move(finding));
}

HealthFinding judge_lid(const CheckInput& input, const InfinibandPort& port) {
  HealthFinding finding = port_finding(input, port, "lid", "nonzero");
  for (const char* leaf : {"lid", "sm_lid"}) {
    finding.source = port.path(leaf);
    const auto lid = read_as(input, finding,
                             [](std::string_view text) { return decimal_or_hex(trimmed(text)); });
    if (!lid) return finding;
    finding.value = *input.files.text(finding.source);
    if (*lid == 0) return as_failed(std::move(finding));
  }
  finding.source = port.path("lid");
  finding.value = *input.files.text(finding.source);
  return finding;
}

// The profile names a partition as the limit `partition`; without one any will do.
HealthFinding judge_partition(const CheckInput& input, const InfinibandPort& port) {
  HealthFinding finding = port_finding(input, port, "pkeys");
  const double named = input.limit_if_any("partition").value_or(0);
  const long wanted = std::lround(std::clamp(named, 0.0, 65535.0)) & 0x7fff;
  finding.expected = wanted == 0 ? "a full member" : "a full member of " + std::to_string(wanted);
  bool is_read = false;
  for (const std::string& index : input.files.names_below(finding.source)) {
    const FileReading& read = input.files.reading(port.path("pkeys/" + index));
    const auto key = parse_partition_key(read.text);
    if (!read.ok() || !key) continue;
    is_read = true;
    finding.value += (finding.value.empty() ? "" : " ") +
                     std::string(*input.files.text(port.path("pkeys/" + index)));
    const bool is_wanted = wanted == 0 ? key->partition != 0 : key->partition == wanted;
    if (is_wanted && key->is_full_member) return finding;
  }
  if (!is_read) return as_unknown(std::move(finding), finding.source + ": no key could be read");
  return as_failed(std::move(finding));
}

HealthFinding judge_global_id(const CheckInput& input, const InfinibandPort& port) {
  HealthFinding finding = port_finding(input, port, "gids/0", "nonzero");
  const auto id = read_as(input, finding, parse_global_id);
  if (!id) return finding;
  finding.value = *input.files.text(finding.source);
  // The prefix of the subnet alone is the same on every port.
  return *id != 0 ? finding : as_failed(std::move(finding));
}

bool names_ports(const HealthProfile& profile) {
  return !profile.ib.ports.empty();
}

bool names_rate(const HealthProfile& profile) {
  return names_ports(profile) && (profile.ib.rate_gbps || profile.ib.width);
}

std::vector<HealthFinding> judge_rates(const CheckInput& input) {
  return names_rate(input.profile) ? on_each_port<judge_rate>(input) : std::vector<HealthFinding>();
}

// What all ports of a node lack at once is not the ports' fault.
std::vector<HealthFinding> judge_states(const CheckInput& input) {
  std::vector<HealthFinding> findings = on_each_port<judge_state>(input);
  const auto is_init = [](const HealthFinding& one) {
    return one.value.starts_with(std::to_string(state_init) + ":");
  };
  if (findings.size() < 2 || !std::ranges::all_of(findings, is_init)) return findings;
  for (HealthFinding& finding : findings) {
    finding.fault_class = FaultClass::infra;
    finding.evidence.emplace_back("all ports of the node are in INIT: see to the subnet manager");
  }
  return findings;
}

}  // namespace

std::vector<InfinibandVersions> infiniband_versions(const SourceFiles& files,
                                                    const std::vector<InfinibandPort>& ports) {
  const auto said = [&](const InfinibandPort& port, std::string_view leaf) {
    return std::string(files.text(infiniband_device_path(port.device, leaf)).value_or(""));
  };
  std::vector<InfinibandVersions> versions;
  for (const InfinibandPort& port : first_ports(ports)) {
    versions.push_back(
        {port.device, said(port, "fw_ver"), said(port, "board_id"), said(port, "hca_type")});
  }
  return versions;
}

std::span<const CheckSpec> infiniband_device_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "ib.devices", .source = "/sys/class/infiniband", .says = "all ports of the profile",
     .severity = stop_reboot_then_rma, .phases = when("PTEF"), .cost = 20us,
     .group = infiniband_state, .limits = {boot_grace},
     .is_certain = [](const HealthProfile& profile) { return !profile.ib.ports.empty(); },
     .judge = judge_port_presence, .learn = learn_ports},
    {.id = "ib.fw", .source = "fw_ver, board_id, hca_type", .says = "those of most nodes",
     .phases = when("P"), .cost = 60us, .group = infiniband_state,
     .judge = judge_firmware},
    {.id = "ib.chardev", .source = "/dev/infiniband/uverbs*", .says = "one of each device opens",
     .severity = drain, .fault = setup, .phases = when("P"), .cost = 50us,
     .group = infiniband_state, .judge = on_each_device<judge_openable>},
    {.id = "ib.pcie", .source = "B/current_link_{speed,width}", .says = "the maximum of the device",
     .severity = drain, .phases = when("P"), .cost = 80us, .group = infiniband_state,
     .limits = {{"width", "lanes"}, {"speed_gt_per_s", "GT/s"}},
     .judge = on_each_device<judge_pcie>},
    {.id = "ib.netdev", .source = "/sys/class/net/ib*/operstate", .says = "up", .phases = when("P"),
     .cost = 40us, .is_of_link = true, .group = infiniband_state,
     .limits = {boot_grace}, .judge = on_each_device<judge_netdev>},
    // A state's severity is the worst that it leads to: INIT only warns.
    {.id = "ib.state", .source = "P/state", .says = "4: ACTIVE", .severity = stop_drain,
     .phases = when("PTEF"), .cost = 20us, .is_of_link = true,
     .group = infiniband_state, .limits = {boot_grace}, .is_certain = names_ports,
     .judge = judge_states},
    {.id = "ib.phys", .source = "P/phys_state", .says = "5: LinkUp", .severity = drain,
     .phases = when("PTEF"), .cost = 20us, .is_of_link = true,
     .group = infiniband_state, .limits = {boot_grace}, .judge = on_each_port<judge_physical>},
    {.id = "ib.rate", .source = "P/rate", .says = "rate and width of the profile",
     .severity = drain, .phases = when("PTE"), .cost = 20us, .is_of_link = true,
     .group = infiniband_state, .limits = {boot_grace}, .is_certain = names_rate,
     .is_asked =
         is_set<&HealthProfile::ib, &InfinibandProfile::rate_gbps, &InfinibandProfile::width>,
     .judge = judge_rates},
    {.id = "ib.link_layer", .source = "P/link_layer", .says = "InfiniBand", .severity = drain,
     .fault = setup, .phases = when("P"), .cost = 20us, .group = infiniband_state,
     .limits = {boot_grace}, .judge = on_each_port<judge_link_layer>},
    {.id = "ib.lid", .source = "P/lid, P/sm_lid", .says = "nonzero", .phases = when("P"),
     .cost = 20us, .is_of_link = true, .group = infiniband_state,
     .limits = {boot_grace}, .judge = on_each_port<judge_lid>},
    // The subnet manager gives both.
    {.id = "ib.pkey", .source = "P/pkeys", .says = "a full member of the partition",
     .severity = drain, .fault = setup, .phases = when("P"), .cost = 80us,
     .is_often_shared = true, .group = infiniband_state,
     .limits = {boot_grace, {"partition", "", {}, 0, 65535, true}},
     .judge = on_each_port<judge_partition>},
    {.id = "ib.gid", .source = "P/gids/0", .says = "nonzero", .severity = drain, .fault = setup,
     .phases = when("P"), .cost = 20us, .is_often_shared = true,
     .group = infiniband_state, .limits = {boot_grace}, .judge = on_each_port<judge_global_id>},
  };
  // clang-format on
  return all;
}

}  // namespace muster
