#include <set>

#include "health/fabric/fabric_subject.h"
#include "health/fabric/judges.h"
#include "health/model/check_words.h"

namespace muster {

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

}  // namespace muster
