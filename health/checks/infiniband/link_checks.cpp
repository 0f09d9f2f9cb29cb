#include "health/checks/infiniband/link_checks.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "health/checks/infiniband/counter_checks.h"
#include "health/checks/infiniband/device_checks.h"
#include "health/checks/infiniband/port_finding.h"
#include "health/checks/infiniband/port_text.h"

namespace muster {

namespace {

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

HealthFinding judge_state(const SourceFiles& files, const HealthProfile&,
                          const InfinibandPort& port) {
  HealthFinding finding = port_finding("ib.state", port, "state");
  finding.expected = "4: ACTIVE";
  const FileReading& read = files.reading(finding.source);
  if (!read.ok()) return as_unreadable(std::move(finding), read);
  const auto state = parse_numbered_state(read.text);
  if (state) finding.value = std::to_string(state->number) + ": " + state->word;
  if (finding.value == finding.expected) return finding;
  if (!state || state->number == state_active || state->number > state_last)
    return as_not_understood(std::move(finding), read.text);
  // INIT, ARMED and ACTIVE_DEFER: the link is there, the subnet manager is not through with it.
  if (state->number > state_down) return as_failed(std::move(finding), only_warn);
  return as_failed(std::move(finding));
}

HealthFinding judge_physical(const SourceFiles& files, const HealthProfile&,
                             const InfinibandPort& port) {
  HealthFinding finding = port_finding("ib.phys", port, "phys_state");
  finding.expected = "5: LinkUp";
  const FileReading& read = files.reading(finding.source);
  if (!read.ok()) return as_unreadable(std::move(finding), read);
  const auto state = parse_numbered_state(read.text);
  if (state) finding.value = std::to_string(state->number) + ": " + state->word;
  if (finding.value == finding.expected) return finding;
  if (!state || state->word == "<unknown>" || state->number == physical_link_up ||
      state->number > physical_last)
    return as_not_understood(std::move(finding), read.text);
  if (state->number == physical_polling || state->number == physical_disabled)
    return as_failed(std::move(finding));
  return as_failed(std::move(finding), only_warn);  // asleep, in training, recovering
}

// Of a link that is down the driver tells some rate.
bool is_known_down(const SourceFiles& files, const InfinibandPort& port) {
  const auto state = parse_numbered_state(files.text(port.path("phys_state")).value_or(""));
  return state && state->number != physical_link_up;
}

HealthFinding judge_rate(const SourceFiles& files, const HealthProfile& profile,
                         const InfinibandPort& port) {
  HealthFinding finding = port_finding("ib.rate", port, "rate");
  const int gbps = profile.ib.rate_gbps.value_or(0);
  const int lanes = parse_lanes(profile.ib.width.value_or("")).value_or(0);
  finding.unit = "Gb/s";
  finding.expected = ">= " + std::to_string(gbps);
  if (lanes > 0) finding.expected += " (" + std::to_string(lanes) + "X)";
  const FileReading& read = files.reading(finding.source);
  if (!read.ok()) return as_unreadable(std::move(finding), read);
  const auto rate = parse_link_rate(read.text);
  if (!rate) return as_not_understood(std::move(finding), read.text);
  finding.value = shown_number(rate->gbps) + " (" + std::to_string(rate->lanes) + "X)";
  if (is_known_down(files, port)) return as_unknown(std::move(finding), "the link is down");
  if (rate->gbps >= gbps && rate->lanes >= lanes) return finding;
  finding.evidence.push_back(std::string(files.text(finding.source).value_or("")));
  if (rate->lanes < lanes) finding.evidence.emplace_back("lanes are missing: see to the cable");
  return as_failed(std::move(finding));
}

HealthFinding judge_link_layer(const SourceFiles& files, const HealthProfile&,
                               const InfinibandPort& port) {
  HealthFinding finding = port_finding("ib.link_layer", port, "link_layer");
  finding.expected = "InfiniBand";
  const FileReading& read = files.reading(finding.source);
  if (!read.ok()) return as_unreadable(std::move(finding), read);
  const std::string_view layer = files.text(finding.source).value_or("");
  if (layer == finding.expected) {
    finding.value = layer;
    return finding;
  }
  if (layer != "Ethernet") return as_not_understood(std::move(finding), read.text);
  finding.value = layer;
  return as_failed(std::move(finding));
}

HealthFinding judge_lid(const SourceFiles& files, const HealthProfile&,
                        const InfinibandPort& port) {
  HealthFinding finding = port_finding("ib.lid", port, "lid");
  finding.expected = "nonzero";
  for (const char* leaf : {"lid", "sm_lid"}) {
    finding.source = port.path(leaf);
    const FileReading& read = files.reading(finding.source);
    if (!read.ok()) return as_unreadable(std::move(finding), read);
    const auto lid = files.number(finding.source);
    if (!lid) return as_not_understood(std::move(finding), read.text);
    finding.value = *files.text(finding.source);
    if (*lid == 0) return as_failed(std::move(finding));
  }
  finding.source = port.path("lid");
  finding.value = *files.text(finding.source);
  return finding;
}

// The profile names a partition as the limit `partition`; without one any will do.
HealthFinding judge_partition(const SourceFiles& files, const HealthProfile& profile,
                              const InfinibandPort& port) {
  HealthFinding finding = port_finding("ib.pkey", port, "pkeys");
  const double named = limit_of(profile, finding.check, "partition", 0);
  const long wanted = std::lround(std::clamp(named, 0.0, 65535.0)) & 0x7fff;
  finding.expected = wanted == 0 ? "a full member" : "a full member of " + std::to_string(wanted);
  bool is_read = false;
  for (const std::string& index : files.names_below(finding.source)) {
    const FileReading& read = files.reading(port.path("pkeys/" + index));
    const auto key = parse_partition_key(read.text);
    if (!read.ok() || !key) continue;
    is_read = true;
    finding.value +=
        (finding.value.empty() ? "" : " ") + std::string(*files.text(port.path("pkeys/" + index)));
    const bool is_wanted = wanted == 0 ? key->partition != 0 : key->partition == wanted;
    if (is_wanted && key->is_full_member) return finding;
  }
  if (!is_read) return as_unknown(std::move(finding), finding.source + ": no key could be read");
  return as_failed(std::move(finding));
}

HealthFinding judge_global_id(const SourceFiles& files, const HealthProfile&,
                              const InfinibandPort& port) {
  HealthFinding finding = port_finding("ib.gid", port, "gids/0");
  finding.expected = "nonzero";
  const FileReading& read = files.reading(finding.source);
  if (!read.ok()) return as_unreadable(std::move(finding), read);
  const auto id = parse_global_id(read.text);
  if (!id) return as_not_understood(std::move(finding), read.text);
  finding.value = *files.text(finding.source);
  // The prefix of the subnet alone is the same on every port.
  return id->port != 0 ? finding : as_failed(std::move(finding));
}

bool is_said(const HealthProfile& profile, std::string_view check) {
  return check != "ib.rate" || profile.ib.rate_gbps || profile.ib.width;
}

// What all ports of a node lack at once is not the ports' fault.
void blame_subnet_manager(std::vector<HealthFinding>& findings) {
  const auto is_state = [](const HealthFinding& one) { return one.check == "ib.state"; };
  const auto is_init = [&](const HealthFinding& one) {
    return one.value.starts_with(std::to_string(state_init) + ":");
  };
  const auto ports = std::ranges::count_if(findings, is_state);
  const auto waiting = std::ranges::count_if(
      findings, [&](const HealthFinding& one) { return is_state(one) && is_init(one); });
  if (ports < 2 || waiting != ports) return;
  for (HealthFinding& finding : findings) {
    if (!is_state(finding)) continue;
    finding.fault_class = FaultClass::infra;
    finding.evidence.emplace_back("all ports of the node are in INIT: see to the subnet manager");
  }
}

}  // namespace

std::vector<HealthFinding> judge_links(const SourceFiles& files, const HealthProfile& profile,
                                       std::span<const InfinibandPort> ports, bool is_of_links) {
  struct Check {
    std::string_view id;
    bool is_of_link;
    HealthFinding (*judge)(const SourceFiles&, const HealthProfile&, const InfinibandPort&);
  };
  constexpr Check checks[] = {
      {"ib.state", true, judge_state},    {"ib.phys", true, judge_physical},
      {"ib.rate", true, judge_rate},      {"ib.link_layer", false, judge_link_layer},
      {"ib.lid", false, judge_lid},       {"ib.pkey", false, judge_partition},
      {"ib.gid", false, judge_global_id},
  };
  std::vector<HealthFinding> findings;
  for (const InfinibandPort& port : ports) {
    for (const Check& check : checks) {
      if (is_of_links && !check.is_of_link) continue;
      if (!is_said(profile, check.id) || !is_judged(profile, check.id, port)) continue;
      findings.push_back(with_grace(check.judge(files, profile, port), files, profile));
    }
  }
  blame_subnet_manager(findings);
  return findings;
}

std::vector<HealthFinding> judge_infiniband(const InfinibandFacts& facts,
                                            const HealthProfile& profile) {
  const SourceFiles& files = facts.files;
  const auto ports = judged_ports(files, profile, facts.refusing);
  std::vector<HealthFinding> findings = judge_port_presence(files, profile);
  const auto add = [&findings](std::vector<HealthFinding> more) {
    findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  };
  add(judge_links(files, profile, ports, facts.is_of_links));
  if (!facts.is_of_links) add(judge_devices(files, profile, ports));
  if (facts.has_counters) {
    add(judge_counters(files, profile, ports, facts.counters));
    add(judge_traffic(files, profile, ports, facts.counters, facts.job_runs));
  }
  add(facts.flaps.judge(profile, ports, facts.now, facts.log_error));
  return findings;
}

}  // namespace muster
