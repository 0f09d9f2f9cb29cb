#include "health/fabric/judges.h"

#include <set>

#include "health/fabric/fabric_subject.h"
#include "health/fabric/readers.h"
#include "health/model/check_words.h"

namespace muster {

const CheckSpec fabric_links{.id = "fab.links",
                             .source = "iblinkinfo -l",
                             .says = "4X and the profile's rate; no cabled port is Down or Polling",
                             .severity = check_words::drain,
                             .phases = check_words::when("PF"),
                             .cost = std::chrono::milliseconds(200),
                             .is_of_link = true};

namespace {

constexpr int usual_lanes = 4;  // all cables of today's adapters and switches

struct WantedSpeed {
  int lanes = usual_lanes;
  std::optional<double> gbps;
};

struct JudgedLinks {  // what two readings and a profile are looked at with
  const Fabric& now;
  const Fabric* golden;
  FabricNames names;
  WantedSpeed of_host;
};

WantedSpeed wanted_by(const HealthProfile& profile) {
  WantedSpeed wanted;
  if (profile.ib.width) wanted.lanes = lanes_of(*profile.ib.width).value_or(usual_lanes);
  if (profile.ib.rate_gbps) wanted.gbps = *profile.ib.rate_gbps;
  return wanted;
}

bool is_linked(const Fabric& fabric, const FabricLink& link) {
  const FabricPort* first = find_port(fabric, link.first);
  const FabricPort* second = find_port(fabric, link.second);
  return (first != nullptr && first->peer == link.second) ||
         (second != nullptr && second->peer == link.first);
}

std::optional<double> gbps_of(const FabricPort* port) {
  if (port == nullptr || !port->lanes || !port->lane_gbps) return std::nullopt;
  return *port->lanes * *port->lane_gbps;
}

HealthFinding link_finding(CheckStatus status, std::string value, std::string expected,
                           std::string evidence) {
  return make_finding(fabric_links, "", status, std::move(value), std::move(expected),
                      std::move(evidence));
}

HealthFinding link_warning(std::string value, std::string expected, std::string evidence) {
  HealthFinding finding =
      link_finding(CheckStatus::fail, std::move(value), std::move(expected), std::move(evidence));
  finding.severity = only_warn;
  return finding;
}

// ---- a cable of the golden topology that is not linked

HealthFinding judge_unlinked_end(const JudgedLinks& judged, const FabricEnd& end,
                                 const FabricEnd& other, const FabricPort& port) {
  const std::string here = judged.names.end(end);
  const std::string there = judged.names.end(other);
  const std::string cable = here + " to " + there + ": ";
  if (port.peer) {
    const std::string found = judged.names.end(*port.peer);
    return link_warning(found, there, here + " is cabled to " + found + ", not to " + there);
  }
  if (port.state == PortState::active) {
    return link_finding(CheckStatus::fail, "no answer", "Active",
                        cable + "linked, and what is at the other end does not answer");
  }
  return link_finding(CheckStatus::fail, text_of_state(port), "Active",
                      cable + text_of_state(port));
}

void judge_unlinked(const JudgedLinks& judged, const FabricLink& link, WorstFindings& findings) {
  const auto subjects = judged.names.cable(link);
  const auto add = [&](const HealthFinding& finding) {
    for (const FabricSubject& subject : subjects) findings.add(subject, finding);
  };
  const FabricPort* first = find_port(judged.now, link.first);
  const FabricPort* second = find_port(judged.now, link.second);
  // Where a cable was moved, the socket that it left is down, which is no fault of its own.
  const bool is_moved = (first != nullptr && first->peer) || (second != nullptr && second->peer);
  if (first != nullptr && (first->peer || !is_moved)) {
    add(judge_unlinked_end(judged, link.first, link.second, *first));
  }
  if (second != nullptr && (second->peer || !is_moved)) {
    add(judge_unlinked_end(judged, link.second, link.first, *second));
  }
  if (first == nullptr && second == nullptr) {
    add(link_finding(CheckStatus::unknown, "", "Active",
                     judged.names.end(link.first) + " to " + judged.names.end(link.second) +
                         ": neither end was seen"));
  }
}

// ---- a cable that is linked

WantedSpeed wanted_of(const JudgedLinks& judged, const FabricLink& link, bool is_of_host) {
  WantedSpeed wanted{judged.of_host.lanes, std::nullopt};
  if (is_of_host) wanted.gbps = judged.of_host.gbps;
  if (wanted.gbps || judged.golden == nullptr) return wanted;
  wanted.gbps = gbps_of(find_port(*judged.golden, link.first));
  if (!wanted.gbps) wanted.gbps = gbps_of(find_port(*judged.golden, link.second));
  return wanted;
}

HealthFinding judge_linked_end(const FabricPort& port, const WantedSpeed& wanted,
                               const std::string& cable) {
  const std::string lanes_wanted = std::to_string(wanted.lanes) + "X";
  if (port.state == PortState::down) {
    return link_finding(CheckStatus::fail, text_of_state(port), "Active",
                        cable + text_of_state(port));
  }
  if (port.state != PortState::active) {
    return link_warning(text_of_state(port), "Active",
                        cable + "no subnet manager has brought it up: " + text_of_state(port));
  }
  if (!port.lanes) {
    return link_finding(CheckStatus::unknown, "", lanes_wanted,
                        cable + "its width was not reported");
  }
  const std::string lanes = std::to_string(*port.lanes) + "X";
  if (*port.lanes < wanted.lanes) {
    return link_finding(CheckStatus::fail, lanes, lanes_wanted,
                        cable + lanes + ", " + lanes_wanted);
  }
  if (!wanted.gbps) return link_finding(CheckStatus::pass, lanes, lanes_wanted, "");
  const auto gbps = gbps_of(&port);
  const std::string gbps_wanted = ">= " + decimal_text(*wanted.gbps);
  if (!gbps) {
    return link_finding(CheckStatus::unknown, "", gbps_wanted,
                        cable + "its speed was not reported");
  }
  const bool is_slow = *gbps < *wanted.gbps;
  const std::string found = cable + decimal_text(*gbps) + " Gb/s";
  HealthFinding finding = link_finding(is_slow ? CheckStatus::fail : CheckStatus::pass,
                                       decimal_text(*gbps), gbps_wanted, is_slow ? found : "");
  finding.unit = "Gb/s";
  return finding;
}

void judge_linked(const JudgedLinks& judged, const FabricLink& link, WorstFindings& findings) {
  const std::string cable =
      judged.names.end(link.first) + " to " + judged.names.end(link.second) + ": ";
  for (const FabricSubject& subject : judged.names.cable(link)) {
    const bool is_of_host = !subject.host.empty();
    const WantedSpeed wanted = wanted_of(judged, link, is_of_host);
    for (const FabricEnd& end : {link.first, link.second}) {
      const FabricPort* port = find_port(judged.now, end);
      if (port != nullptr) findings.add(subject, judge_linked_end(*port, wanted, cable));
    }
  }
}

}  // namespace

FabricFindings judge_fabric_links(const Fabric& now, const Fabric* golden,
                                  const HealthProfile& profile) {
  WorstFindings findings(profile);
  if (!now.reading.error.empty() || now.ports.empty()) {
    const std::string& error = now.reading.error;
    findings.add({}, link_finding(CheckStatus::unknown, "", "4X",
                                  error.empty() ? "the tool reported no port" : error));
  } else {
    const JudgedLinks judged{now, golden, FabricNames(now, golden), wanted_by(profile)};
    for (const FabricLink& link : links_of(now)) judge_linked(judged, link, findings);
    for (const FabricLink& link : golden == nullptr ? std::set<FabricLink>() : links_of(*golden)) {
      if (!is_linked(now, link)) judge_unlinked(judged, link, findings);
    }
  }
  return findings.take();
}

const CheckSpec fabric_discover{.id = "fab.discover",
                                .source = "ibnetdiscover -p",
                                .says = "every adapter of the baseline topology is found",
                                .severity = check_words::drain,
                                .phases = check_words::when("T"),
                                .cost = std::chrono::milliseconds(200)};

namespace {

struct JudgedDiscovery {
  const Fabric& now;
  const Fabric& golden;
  FabricNames names;
  std::set<std::string, std::less<>> names_now;
  std::set<std::string, std::less<>> names_golden;
};

std::set<std::string, std::less<>> names_of(const Fabric& fabric) {
  std::set<std::string, std::less<>> names;
  for (const auto& [guid, node] : fabric.nodes) {
    if (!node.name.empty()) names.insert(node.name);
  }
  return names;
}

HealthFinding discovery_finding(CheckStatus status, std::string value, std::string evidence) {
  return make_finding(fabric_discover, "", status, std::move(value), "found", std::move(evidence));
}

HealthFinding discovery_warning(std::string value, std::string evidence) {
  HealthFinding finding =
      discovery_finding(CheckStatus::fail, std::move(value), std::move(evidence));
  finding.severity = only_warn;
  return finding;
}

// The port by which a node is known: an adapter's has one, a switch is all of its.
std::optional<FabricEnd> only_port(const Fabric& fabric, std::uint64_t guid) {
  const auto at = fabric.ports.lower_bound({guid, 0});
  if (at == fabric.ports.end() || at->first.guid != guid) return std::nullopt;
  return at->first;
}

// The switch that an adapter was cabled to is missing too.
std::optional<std::uint64_t> missing_switch(const JudgedDiscovery& judged, std::uint64_t guid) {
  const auto end = only_port(judged.golden, guid);
  if (!end) return std::nullopt;
  const FabricPort* port = find_port(judged.golden, *end);
  if (port == nullptr || !port->peer) return std::nullopt;
  const FabricNode* other = find_node(judged.golden, port->peer->guid);
  const bool is_switch = other != nullptr && other->kind == FabricNodeKind::switch_node;
  const bool is_missing = find_node(judged.now, port->peer->guid) == nullptr;
  return is_switch && is_missing ? std::optional(port->peer->guid) : std::nullopt;
}

HealthFinding judge_missing(const JudgedDiscovery& judged, std::uint64_t guid) {
  const std::string name = judged.names.name(guid);
  if (!judged.now.reading.is_whole()) {
    return discovery_finding(CheckStatus::unknown, "", "not in a list that is not whole");
  }
  if (const auto leaf = missing_switch(judged, guid)) {
    return discovery_finding(CheckStatus::unknown, "",
                             "its switch " + judged.names.name(*leaf) + " is missing");
  }
  if (judged.names_now.contains(name)) {
    return discovery_warning("another", name + " has another GUID than " + text_of_guid(guid));
  }
  return discovery_finding(CheckStatus::fail, "missing",
                           name + " " + text_of_guid(guid) + " is missing");
}

HealthFinding judge_present(const JudgedDiscovery& judged, std::uint64_t guid) {
  const std::string name = judged.names.name(guid);
  const FabricNode* before = find_node(judged.golden, guid);
  if (before == nullptr) {
    const bool is_other_board = judged.names_golden.contains(name);
    return is_other_board ? discovery_warning("another", name + " is now " + text_of_guid(guid))
                          : discovery_warning("new", name + " " + text_of_guid(guid) + " is new");
  }
  if (!before->name.empty() && before->name != name) {
    return discovery_warning("renamed", text_of_guid(guid) + " was " + before->name);
  }
  return discovery_finding(CheckStatus::pass, "found", "");
}

void add_adapter(const JudgedDiscovery& judged, std::uint64_t guid, const HealthFinding& finding,
                 WorstFindings& findings) {
  const auto end_now = only_port(judged.now, guid);
  const auto end = end_now ? end_now : only_port(judged.golden, guid);
  const auto subject = judged.names.adapter(end.value_or(FabricEnd{guid, 1}));
  if (subject) return findings.add(*subject, finding);
  const std::string serial = text_of_guid(guid);
  findings.add({"", judged.names.name(guid) + " " + serial, serial}, finding);
}

}  // namespace

FabricFindings judge_fabric_discovery(const Fabric& now, const Fabric& golden,
                                      const HealthProfile& profile) {
  WorstFindings findings(profile);
  if (!now.reading.error.empty() || now.nodes.empty() || golden.nodes.empty()) {
    const std::string& error = now.reading.error;
    const std::string why = golden.nodes.empty() ? "there is no baseline topology"
                            : error.empty()      ? "the tool reported no node"
                                                 : error;
    findings.add({}, discovery_finding(CheckStatus::unknown, "", why));
    return findings.take();
  }
  const JudgedDiscovery judged{now, golden, FabricNames(now, &golden), names_of(now),
                               names_of(golden)};
  for (const auto& [guid, node] : golden.nodes) {
    if (find_node(now, guid) == nullptr)
      add_adapter(judged, guid, judge_missing(judged, guid), findings);
  }
  for (const auto& [guid, node] : now.nodes) {
    add_adapter(judged, guid, judge_present(judged, guid), findings);
  }
  return findings.take();
}

const CheckSpec fabric_sm{.id = "fab.sm",
                          .source = "sminfo",
                          .says = "a subnet manager is master",
                          .fault = FaultClass::infra,
                          .phases = check_words::when("T"),
                          .cost = std::chrono::milliseconds(5)};

std::span<const CheckSpec> fabric_checks() {
  static const CheckSpec all[] = {fabric_errors, fabric_links, fabric_discover, fabric_sm};
  return all;
}

FabricFindings judge_subnet_manager(const std::optional<SubnetManager>& manager) {
  constexpr std::string_view wanted = "SMINFO_MASTER";
  if (!manager) {
    return {
        {"", make_finding(fabric_sm, "", CheckStatus::unknown, "", "", "the tool could not ask")}};
  }
  const CheckStatus status = manager->state == wanted ? CheckStatus::pass : CheckStatus::fail;
  const std::string who =
      "LID " + std::to_string(manager->lid) + ", " + text_of_guid(manager->guid);
  return {{"", make_finding(fabric_sm, "", status,
                            manager->state.empty() ? "no answer" : manager->state,
                            std::string(wanted), manager->guid == 0 ? "" : who)}};
}

}  // namespace muster
