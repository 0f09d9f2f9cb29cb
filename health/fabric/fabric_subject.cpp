#include "health/fabric/fabric_subject.h"

#include <algorithm>

namespace muster {

namespace {

// Higher is worse.
int rank_of(const HealthFinding& finding) {
  const bool is_bad = finding.status == CheckStatus::fail;
  return badness_of(finding.status) + (is_bad ? static_cast<int>(finding.severity.remedy) : 0);
}

void append(std::vector<std::string>& kept, const std::vector<std::string>& more) {
  constexpr std::size_t lines_of_subject = 8;  // of one subject
  for (const std::string& line : more) {
    if (kept.size() < lines_of_subject && std::ranges::find(kept, line) == kept.end()) {
      kept.push_back(line);
    }
  }
}

}  // namespace

FabricNames::FabricNames(const Fabric& first, const Fabric* second) {
  if (second != nullptr) names_.nodes = second->nodes;
  for (const auto& [guid, node] : first.nodes) {
    // A switch with one port listed may be taken for an adapter: what the other knows stays.
    const FabricNode* known = find_node(names_, guid);
    const bool is_known = known != nullptr && known->kind != FabricNodeKind::unknown;
    note_node(names_, guid, node.name, is_known ? FabricNodeKind::unknown : node.kind);
  }
}

std::string FabricNames::name(std::uint64_t guid) const {
  const FabricNode* node = find_node(names_, guid);
  return node == nullptr || node->name.empty() ? text_of_guid(guid) : node->name;
}

std::optional<FabricSubject> FabricNames::adapter(const FabricEnd& one) const {
  const FabricNode* node = find_node(names_, one.guid);
  if (node == nullptr || node->kind == FabricNodeKind::switch_node) return std::nullopt;
  const auto named = host_device_of(node->name);
  if (!named) return std::nullopt;
  return FabricSubject{named->host, named->device + ":" + std::to_string(one.port),
                       text_of_guid(one.guid)};
}

std::vector<FabricSubject> FabricNames::cable(const FabricLink& link) const {
  std::vector<FabricSubject> subjects;
  for (const FabricEnd& one : {link.first, link.second}) {
    if (auto subject = adapter(one)) subjects.push_back(*subject);
  }
  if (subjects.empty()) {
    const auto [first, second] = std::minmax({end(link.first), end(link.second)});
    subjects.push_back({"", first + "-" + second, ""});
  }
  return subjects;
}

void WorstFindings::add(const FabricSubject& subject, HealthFinding finding) {
  finding.device = subject.device;
  finding.serial = subject.serial;
  if (is_off(profile_, finding.check, finding.device)) return;
  const auto [at, is_new] = findings_.try_emplace({subject.host, subject.device}, finding);
  if (is_new) return;
  HealthFinding& kept = at->second;
  if (rank_of(kept) == rank_of(finding)) append(kept.evidence, finding.evidence);
  if (rank_of(kept) < rank_of(finding)) kept = std::move(finding);
}

FabricFindings WorstFindings::take() {
  FabricFindings all;
  for (auto& [subject, finding] : findings_) {
    if (subject.first.empty()) {
      finding.severity = only_warn;
      finding.fault_class = FaultClass::infra;
    }
    all.push_back({subject.first, std::move(finding)});
  }
  findings_.clear();
  return all;
}

}  // namespace muster
