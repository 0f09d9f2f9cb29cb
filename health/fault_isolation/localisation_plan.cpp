// What the next round tests.
#include <algorithm>

#include "health/fault_isolation/search.h"

namespace muster {

namespace {

// Rails are judged beside those of nodes that are known to be good.
constexpr std::size_t control_pairs = 8;
constexpr int last_round_for_paths = 3;

}  // namespace

void Localisation::plan_pair(NodeIndex a, NodeIndex b, std::optional<std::size_t> rail,
                             Purpose purpose) {
  planned_.push_back({{a, b, rail}, purpose, {}, false});
  occupy(a, b);
}

void Localisation::plan_on_each_rail(NodeIndex a, NodeIndex b, Purpose purpose) {
  for (std::size_t rail = 0; rail < rails_of(a, b); ++rail) plan_pair(a, b, rail, purpose);
}

void Localisation::occupy(NodeIndex a, NodeIndex b) {
  occupied_[a] = occupied_[b] = true;
  if (!crossings_ || !is_across(a, b)) return;
  std::vector<PartIndex> parts;
  std::vector<std::size_t> directions;
  for (std::size_t rail = 0; rail < rails_of(a, b); ++rail) {
    crossings_->parts_of({a, b, rail}, parts, directions);
    for (const std::size_t direction : directions) busy_[direction] = true;
  }
}

// A node whose rails nobody named has one.
std::size_t Localisation::rails_of(NodeIndex a, NodeIndex b) const {
  return std::max<std::size_t>(1, std::min(nodes_[a].rails.size(), nodes_[b].rails.size()));
}

void Localisation::plan_spread() {
  for (std::vector<NodeIndex> leaf : leaves_) {
    shuffle(leaf, random_);
    for (std::size_t i = 0; i + 1 < leaf.size(); i += 2) {
      plan_pair(leaf[i], leaf[i + 1], {}, Purpose::spread);
    }
  }
}

// Bad and silent ones, then those that waited, then doubtful ones: partners may run out.
std::vector<NodeIndex> Localisation::suspects_by_urgency() {
  std::vector<std::vector<NodeIndex>> by_urgency(3);
  for (NodeIndex node = 0; node < nodes_.size(); ++node) {
    const NodeCase& found = cases_[node];
    if (found.standing == Standing::untested) by_urgency[1].push_back(node);
    if (found.standing == Standing::confirmed) by_urgency[0].push_back(node);
    if (found.standing != Standing::suspect) continue;
    const bool failed = std::any_of(found.looks.begin(), found.looks.end(), [](const Look& look) {
      return look.reading == PairReading::bad || look.reading == PairReading::unknown;
    });
    by_urgency[failed ? 0 : 2].push_back(node);
  }
  std::vector<NodeIndex> ordered;
  for (auto& nodes : by_urgency) {
    shuffle(nodes, random_);
    ordered.insert(ordered.end(), nodes.begin(), nodes.end());
  }
  return ordered;
}

void Localisation::plan_suspects() {
  for (const NodeIndex node : suspects_by_urgency()) {
    if (!occupied_[node]) plan_suspect(node);
  }
}

void Localisation::plan_suspect(NodeIndex node) {
  const std::optional<NodeIndex> partner = partner_for(node);
  if (!partner) return;  // it waits
  const NodeCase& found = cases_[node];
  const std::size_t rails = rails_of(node, *partner);
  const bool is_confirmed = found.standing == Standing::confirmed;
  const bool by_rail = rails > 1 && (is_confirmed || looks_with_good(found.looks) > 0);
  // Rails that share a link would slow each other; over all of them it is one after the other.
  const bool is_apart =
      !crossings_ || crossings_->rails_apart(node, *partner, rails).size() == rails;
  if (by_rail && is_confirmed && !is_apart) return;  // another partner may be found
  if (by_rail && is_apart) {
    plan_on_each_rail(node, *partner, Purpose::split);
  } else {
    plan_pair(node, *partner, {}, Purpose::confirm);
  }
}

bool Localisation::was_partner(NodeIndex a, NodeIndex b) const {
  const auto& looks = cases_[a].looks;
  return std::any_of(looks.begin(), looks.end(),
                     [&](const Look& look) { return look.partner == b; });
}

// Two pairs over one link in one direction would slow each other.
bool Localisation::may_test(NodeIndex a, NodeIndex b) const {
  if (!crossings_ || !is_across(a, b)) return true;
  std::vector<PartIndex> parts;
  std::vector<std::size_t> directions;
  for (std::size_t rail = 0; rail < rails_of(a, b); ++rail) {
    crossings_->parts_of({a, b, rail}, parts, directions);
    for (const std::size_t direction : directions) {
      if (busy_[direction]) return false;
    }
  }
  return true;
}

// From a random place on, so that no node is everybody's partner.
std::optional<NodeIndex> Localisation::pick(const std::vector<NodeIndex>& from, NodeIndex node,
                                            bool any) {
  if (from.empty()) return std::nullopt;
  const std::size_t first = static_cast<std::size_t>(random_() % from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const NodeIndex other = from[(first + i) % from.size()];
    const Standing standing = cases_[other].standing;
    const bool fits = standing == Standing::good ||
                      (any && (standing == Standing::suspect || standing == Standing::untested));
    if (fits && other != node && !occupied_[other] && !was_partner(node, other) &&
        may_test(node, other)) {
      return other;
    }
  }
  return std::nullopt;
}

std::optional<NodeIndex> Localisation::partner_for(NodeIndex node) {
  const std::size_t leaf = cases_[node].leaf;
  if (const auto mate = pick(leaves_[leaf], node, false)) return mate;
  const std::size_t first = static_cast<std::size_t>(random_() % leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const std::size_t other = (first + i) % leaves_.size();
    if (other == leaf) continue;
    if (const auto borrowed = pick(leaves_[other], node, false)) return borrowed;
  }
  // Nobody is known to be good anywhere: whoever it was not with.
  const bool is_anyone_good = std::any_of(cases_.begin(), cases_.end(), [](const NodeCase& found) {
    return found.standing == Standing::good;
  });
  if (is_anyone_good) return std::nullopt;
  std::vector<NodeIndex> all = leaves_[leaf];
  for (NodeIndex other = 0; other < nodes_.size(); ++other) {
    if (is_across(node, other)) all.push_back(other);
  }
  return pick(all, node, true);
}

// The slowest first. Of those across leaves one for each leaf, once: without knowledge of routes
// two of them may slow each other, and the fault is the slowest.
void Localisation::plan_paths() {
  std::vector<const PathCase*> paths;
  for (const PathCase& path : paths_) {
    if (!path.is_settled) paths.push_back(&path);
  }
  std::stable_sort(paths.begin(), paths.end(), [](const PathCase* left, const PathCase* right) {
    return left->looks.front().deviation < right->looks.front().deviation;
  });
  std::vector<bool> has_path(leaves_.size(), false);
  for (const PathCase* path : paths) {
    const auto [a, b, rail] = path->test;
    if (occupied_[a] || occupied_[b]) continue;
    if (is_across(a, b)) {
      if (round_ > last_round_for_paths) continue;
      if (has_path[cases_[a].leaf] || has_path[cases_[b].leaf]) continue;
      has_path[cases_[a].leaf] = has_path[cases_[b].leaf] = true;
    }
    plan_pair(a, b, rail, Purpose::path);
  }
}

void Localisation::plan_controls() {
  const bool needed = std::any_of(planned_.begin(), planned_.end(), [](const Planned& planned) {
    return planned.purpose == Purpose::split;
  });
  if (!needed) return;
  std::size_t missing = control_pairs;
  for (std::vector<NodeIndex> nodes : free_nodes()) {
    shuffle(nodes, random_);
    for (std::size_t i = 0; i + 1 < nodes.size() && missing > 0; i += 2, --missing) {
      plan_on_each_rail(nodes[i], nodes[i + 1], Purpose::control);
    }
  }
}

Leaves Localisation::free_nodes() const {
  Leaves free(leaves_.size());
  for (std::size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    for (const NodeIndex node : leaves_[leaf]) {
      if (cases_[node].standing == Standing::good && !occupied_[node]) free[leaf].push_back(node);
    }
  }
  return free;
}

}  // namespace muster
