#include <algorithm>
#include <map>

#include "health/fabric/ber.h"
#include "health/fabric/fabric_subject.h"
#include "health/model/check.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::string_view ber_check = "fab.ber";
constexpr std::string_view ber_wanted = "no warning of the bit error rate";
constexpr double symbol_from_gbps = 50;  // of a lane: HDR

// What one event says of its port.
struct SaidOfPort {
  CheckStatus status = CheckStatus::fail;
  bool is_mild = false;
};
// Events of ibdiagnet 2: what it could not measure, what is beyond its threshold, what is near it.
SaidOfPort said_by(std::string_view event) {
  if (mentions(event, "VALUE_ZERO")) return {CheckStatus::pass, false};
  if (mentions(event, "NO_THRESHOLD") || mentions(event, "NO_RCV_DATA"))
    return {CheckStatus::unknown, false};
  return {CheckStatus::fail, !mentions(event, "EXCEED") && !mentions(event, "EXCESSIVE")};
}

bool counts(const BerWarning& warning, const FabricPort* port) {
  if (warning.kind == BerKind::other || port == nullptr || !port->lane_gbps) return true;
  const bool has_symbols = *port->lane_gbps >= symbol_from_gbps;
  return (warning.kind == BerKind::symbol) == has_symbols;
}

FabricEnd end_of(const BerWarning& warning, const Fabric& links) {
  const FabricEnd by_port{warning.port_guid, warning.port};
  const FabricEnd by_node{warning.node_guid, warning.port};
  const bool is_by_port =
      warning.port_guid != 0 && (find_port(links, by_port) != nullptr || warning.node_guid == 0);
  if (is_by_port) return by_port;
  const bool is_by_node = find_port(links, by_node) != nullptr || warning.port_guid == 0;
  return is_by_node ? by_node : by_port;
}

// What is said of one cable, or of a port that no cable is known of.
struct CableWarnings {
  CheckStatus status = CheckStatus::pass;
  bool is_mild = true;
  std::vector<std::string> events;
  std::vector<std::string> rows;
  std::vector<std::string> why_unknown;
};

void add_warning(CableWarnings& cable, const BerWarning& warning) {
  const SaidOfPort said = said_by(warning.event);
  if (said.status == CheckStatus::pass) return;
  if (said.status == CheckStatus::unknown) {
    cable.why_unknown.push_back(warning.row);
    return;
  }
  cable.status = CheckStatus::fail;
  cable.is_mild = cable.is_mild && said.is_mild;
  if (std::ranges::find(cable.events, warning.event) == cable.events.end())
    cable.events.push_back(warning.event);
  cable.rows.push_back(warning.row);
}

std::map<FabricLink, CableWarnings> cables_of(const Fabric& links) {
  std::map<FabricLink, CableWarnings> cables;
  for (const auto& [end, port] : links.ports) {
    if (port.peer) cables.try_emplace(link_of(end, *port.peer));
  }
  return cables;
}

HealthFinding ber_finding(const CableWarnings& cable) {
  HealthFinding finding = make_finding(ber_check, "", cable.status);
  finding.expected = ber_wanted;
  if (cable.status == CheckStatus::pass) finding.value = "no warning";
  for (const std::string& event : cable.events)
    finding.value += (finding.value.empty() ? "" : ", ") + event;
  const bool is_mild = cable.status == CheckStatus::fail && cable.is_mild;
  if (is_mild) finding.severity = only_warn;
  finding.evidence = cable.status == CheckStatus::fail ? cable.rows : cable.why_unknown;
  return finding;
}

FabricFindings nothing_known(const BerReading& reading, const std::string& why) {
  HealthFinding finding = make_finding(ber_check, "", CheckStatus::unknown);
  finding.fault_class = reading.is_missing ? FaultClass::setup : FaultClass::infra;
  finding.evidence.push_back(why);
  return {{"", std::move(finding)}};
}

}  // namespace

FabricFindings judge_fabric_ber(const BerReading& reading, const Fabric& links,
                                const HealthProfile& profile) {
  const bool is_empty = reading.measured.empty() && reading.warnings.empty();
  if (!reading.error.empty()) return nothing_known(reading, reading.error);
  if (is_empty) return nothing_known(reading, "ibdiagnet measured no port");
  auto cables = cables_of(links);
  for (const BerWarning& warning : reading.warnings) {
    const FabricEnd end = end_of(warning, links);
    const FabricPort* port = find_port(links, end);
    if (!counts(warning, port)) continue;
    add_warning(
        cables[port != nullptr && port->peer ? link_of(end, *port->peer) : FabricLink{end, end}],
        warning);
  }
  if (cables.empty()) return nothing_known(reading, "the links are not known");
  const FabricNames names(links);
  WorstFindings findings(profile);
  for (auto& [link, cable] : cables) {
    // Each end measures what it receives.
    for (const FabricEnd& end : {link.first, link.second}) {
      if (!reading.measured.contains(end))
        cable.why_unknown.push_back(names.end(end) + " was not measured");
    }
    if (!reading.is_whole()) cable.why_unknown.emplace_back("what ibdiagnet wrote is not whole");
    const bool is_unknown = cable.status == CheckStatus::pass && !cable.why_unknown.empty();
    if (is_unknown) cable.status = CheckStatus::unknown;
    const HealthFinding finding = ber_finding(cable);
    const bool is_alone = link.first == link.second;
    for (FabricSubject subject : names.cable(link)) {
      HealthFinding one = finding;
      if (is_alone && subject.host.empty()) subject.device = names.end(link.first);
      if (subject.host.empty()) one.fault_class = FaultClass::infra;
      findings.add(subject, std::move(one));
    }
  }
  return findings.take();
}

}  // namespace muster
