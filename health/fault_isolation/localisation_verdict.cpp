// What is said at the end, and with which measurements.
#include <algorithm>
#include <cstdio>
#include <set>

#include "health/fault_isolation/search.h"

namespace muster {

std::vector<std::string> Localisation::evidence_of(NodeIndex node) const {
  std::vector<std::string> lines;
  for (const Look& look : cases_[node].looks) {
    lines.push_back(text_of(look, nodes_[look.partner].name));
  }
  return lines;
}

std::string Localisation::name_of(const PairTest& test) const {
  std::string text = nodes_[test.a].name + " - " + nodes_[test.b].name;
  const auto& rails = nodes_[test.a].rails;
  if (test.rail && *test.rail < rails.size()) text += " " + rails[*test.rail];
  return text;
}

std::vector<std::string> Localisation::evidence_of(const NamedParts& group) const {
  std::vector<std::string> lines;
  for (const std::uint32_t i : group.failing) {
    const PairResult& result = across_results_[i];
    char text[64];
    if (result.gb_per_s) {
      const double off = across_.deviation(*result.test.rail, *result.gb_per_s);
      std::snprintf(text, sizeof text, ": %.1f GB/s, %.1f %% below the median", *result.gb_per_s,
                    -100 * off);
    } else {
      std::snprintf(text, sizeof text, ": no result");
    }
    lines.push_back(name_of(result.test) + text);
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

// Switches of which half of the links, three at least, are bad; the links leave `groups`.
std::vector<std::string> Localisation::take_bad_switches(std::vector<NamedParts>& groups) const {
  constexpr std::size_t links_min = 3;
  std::map<std::string, std::pair<std::size_t, std::set<PartIndex>>> links;  // crossed, bad
  for (PartIndex part = 0; part < crossings_->links(); ++part) {
    if (crossings_->part(part).crossings() == 0) continue;
    ++links[routes_->links[part].switch_a].first;
    ++links[routes_->links[part].switch_b].first;
  }
  for (const NamedParts& group : groups) {
    for (const PartIndex part : group.parts) {
      if (!crossings_->is_link(part)) continue;
      links[routes_->links[part].switch_a].second.insert(part);
      links[routes_->links[part].switch_b].second.insert(part);
    }
  }
  std::vector<std::string> bad;
  for (const auto& [name, counts] : links) {
    if (counts.second.size() < links_min || counts.second.size() * 2 < counts.first) continue;
    bad.push_back(name);
    const auto is_of_it = [&found = counts.second](const NamedParts& group) {
      return std::any_of(group.parts.begin(), group.parts.end(),
                         [&](PartIndex part) { return found.count(part) > 0; });
    };
    groups.erase(std::remove_if(groups.begin(), groups.end(), is_of_it), groups.end());
  }
  return bad;
}

void Localisation::name_parts() {
  std::vector<NamedParts> groups = naming_.named;
  for (std::string& name : take_bad_switches(groups)) {
    LocaliseVerdict verdict;
    verdict.kind = LocaliseKind::fabric_switch;
    verdict.names.push_back(std::move(name));
    verdict.evidence.push_back("half of its links or more are slow");
    verdicts_.push_back(std::move(verdict));
  }
  name_links(groups);
  name_rails(groups);
}

void Localisation::name_links(const std::vector<NamedParts>& groups) {
  for (const NamedParts& group : groups) {
    LocaliseVerdict verdict;
    verdict.kind = LocaliseKind::link;
    for (const PartIndex part : group.parts) {
      if (crossings_->is_link(part)) verdict.names.push_back(routes_->links[part].name);
    }
    if (verdict.names.empty()) continue;
    verdict.path_possible = verdict.names.size() > 1;
    verdict.evidence = evidence_of(group);
    verdicts_.push_back(std::move(verdict));
  }
}

// Rails that only showed when they were tested one by one. An only rail was in a good pair before.
void Localisation::name_rails(const std::vector<NamedParts>& groups) {
  if (rails_ < 2) return;
  for (const NamedParts& group : groups) {
    const PartIndex part = group.parts.front();
    if (crossings_->is_link(part)) continue;
    const NodeIndex node = crossings_->node_of(part);
    const std::size_t rail = crossings_->rail_of(part);
    if (cases_[node].standing == Standing::guarded || rail >= nodes_[node].rails.size()) continue;
    LocaliseVerdict verdict;
    verdict.kind = LocaliseKind::rail;
    verdict.names = {nodes_[node].name};
    verdict.rail = nodes_[node].rails[rail];
    verdict.path_possible = true;
    verdict.evidence = evidence_of(group);
    verdicts_.push_back(std::move(verdict));
  }
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
  if (!is_done_ && crossings_) name_parts();
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
