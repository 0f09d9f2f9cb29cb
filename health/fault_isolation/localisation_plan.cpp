// What the next round tests.
#include <algorithm>

#include "health/fault_isolation/search.h"

namespace muster {

namespace {

// Rails are judged beside those of nodes that are known to be good.
constexpr std::size_t control_pairs = 8;
constexpr int last_round_for_paths = 3;
constexpr int round_across_leaves = 2;

// The same order for the same seed with every library.
template <typename T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[static_cast<std::size_t>(random() % i)]);
  }
}

}  // namespace

void Localisation::plan_pair(NodeIndex a, NodeIndex b, std::optional<std::size_t> rail,
                             Purpose purpose) {
  planned_.push_back({{a, b, rail}, purpose, {}, false});
  occupied_[a] = occupied_[b] = true;
}

void Localisation::plan_on_each_rail(NodeIndex a, NodeIndex b, Purpose purpose) {
  for (std::size_t rail = 0; rail < rails_of(a, b); ++rail) plan_pair(a, b, rail, purpose);
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
  if (by_rail) {
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
    if (fits && other != node && !occupied_[other] && !was_partner(node, other)) {
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

// The slowest first. Of those across leaves one for each leaf, once: two of them may slow each
// other, and the fault is the slowest.
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

// The k-th node of a leaf with the k+1st of another. Where routes follow the number of the
// receiver, as they mostly do, no two of these pairs share a link: those that do would slow each
// other.
void Localisation::plan_across_leaves() {
  if (leaves_.size() < 2 || round_ != round_across_leaves) return;
  const Leaves free = free_nodes();
  std::vector<std::size_t> order;
  for (std::size_t leaf = 0; leaf < free.size(); ++leaf) {
    if (!free[leaf].empty()) order.push_back(leaf);
  }
  shuffle(order, random_);
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    const auto& left = free[order[i]];
    const auto& right = free[order[i + 1]];
    const std::size_t count = std::min(left.size(), right.size());
    for (std::size_t k = 0; k < count; ++k) {
      plan_on_each_rail(left[k], right[(k + 1) % count], Purpose::across);
    }
  }
}

Localisation::Leaves Localisation::free_nodes() const {
  Leaves free(leaves_.size());
  for (std::size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    for (const NodeIndex node : leaves_[leaf]) {
      if (cases_[node].standing == Standing::good && !occupied_[node]) free[leaf].push_back(node);
    }
  }
  return free;
}

}  // namespace muster
