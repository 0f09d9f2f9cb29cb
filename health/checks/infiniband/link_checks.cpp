#include <algorithm>
#include <cmath>

#include "health/checks/infiniband/infiniband_checks.h"
#include "health/checks/infiniband/port_text.h"
#include "health/model/check_words.h"
#include "scheduler/text/text.h"

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

std::span<const CheckSpec> infiniband_link_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
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
