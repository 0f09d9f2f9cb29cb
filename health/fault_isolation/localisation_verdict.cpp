// What is said at the end, and with which measurements.
#include <algorithm>

#include "health/fault_isolation/search.h"

namespace muster {

std::vector<std::string> Localisation::evidence_of(NodeIndex node) const {
  std::vector<std::string> lines;
  for (const Look& look : cases_[node].looks) {
    lines.push_back(text_of(look, nodes_[look.partner].name));
  }
  return lines;
}

// One rail: its HCA, cable or leaf port. All of them, or none alone: the node.
void Localisation::name_node(NodeIndex node) {
  NodeCase& found = cases_[node];
  found.standing = Standing::settled;
  LocaliseVerdict verdict;
  verdict.kind = LocaliseKind::node;
  verdict.names = {nodes_[node].name};
  verdict.no_result = gave_no_result(found.looks);
  verdict.path_possible = had_bad_pair_across(found.looks);
  verdict.evidence = evidence_of(node);
  const bool is_some =
      !found.failing_rails.empty() && found.failing_rails.size() < found.rails.size();
  if (!is_some) {
    verdicts_.push_back(std::move(verdict));
    return;
  }
  verdict.kind = LocaliseKind::rail;
  for (const std::size_t rail : found.failing_rails) {
    verdict.rail = nodes_[node].rails[rail];
    verdict.no_result = found.rails[rail].reading == PairReading::unknown;
    verdicts_.push_back(verdict);
  }
}

void Localisation::name_doubtful(NodeIndex node) {
  LocaliseVerdict verdict;
  verdict.kind = LocaliseKind::doubtful;
  verdict.names = {nodes_[node].name};
  verdict.evidence = evidence_of(node);
  verdicts_.push_back(std::move(verdict));
}

void Localisation::name_path(const PathCase& path) {
  const NodeIndex a = path.test.a;
  const NodeIndex b = path.test.b;
  LocaliseVerdict verdict;
  verdict.kind = LocaliseKind::path;
  verdict.names = {nodes_[a].name, nodes_[b].name};
  verdict.no_result = gave_no_result(path.looks);
  verdict.path_possible = true;
  for (const Look& look : path.looks) {
    verdict.evidence.push_back(nodes_[a].name + " " + text_of(look, nodes_[b].name));
  }
  verdicts_.push_back(std::move(verdict));
}

// Bad pairs of which neither node found a partner to be told by.
void Localisation::name_open_pairs() {
  for (const PathCase& path : paths_) {
    const bool is_open = cases_[path.test.a].standing == Standing::suspect &&
                         cases_[path.test.b].standing == Standing::suspect;
    if (is_open && path.looks.size() == 1) name_path(path);
  }
  for (NodeIndex node = 0; node < nodes_.size(); ++node) {
    if (cases_[node].standing == Standing::confirmed) name_node(node);
  }
}

void Localisation::finish() {
  if (!is_done_) name_open_pairs();
  is_done_ = true;
  const bool is_named = std::any_of(
      verdicts_.begin(), verdicts_.end(),
      [](const LocaliseVerdict& verdict) { return verdict.kind != LocaliseKind::doubtful; });
  if (is_named) return;
  constexpr std::size_t bisect_min = 4;
  LocaliseVerdict verdict;
  verdict.kind = LocaliseKind::clean;
  verdict.evidence.push_back(nodes_.size() >= bisect_min
                                 ? "pairs are good: bisect the group; if halves are good, the "
                                   "fault is the user's or infra"
                                 : "pairs are good: the fault is the user's or infra");
  verdicts_.push_back(std::move(verdict));
}

}  // namespace muster
