#include "health/fault_isolation/search.h"

#include <algorithm>

namespace muster {

namespace {

using Nodes = std::vector<NodeIndex>;

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

class RoundPlan {
 public:
  RoundPlan(const Cases& cases, const std::vector<bool>& busy, std::mt19937_64& random)
      : cases_(cases), random_(random), taken_(busy) {}

  void add_spread() {
    for (Nodes leaf : cases_.leaves) {
      shuffle(leaf, random_);
      for (std::size_t i = 0; i + 1 < leaf.size(); i += 2) {
        add(leaf[i], leaf[i + 1], {}, PairPurpose::spread);
      }
    }
  }

  void add_suspects() {
    for (const NodeIndex node : suspects_by_urgency()) {
      if (!taken_[node]) add_suspect(node);
    }
  }

  // The slowest first. Of those across leaves one for each leaf, once: two of them may slow each
  // other, and the fault is the slowest.
  void add_paths() {
    std::vector<const PathCase*> paths;
    for (const PathCase& path : cases_.of_path) {
      if (!path.is_settled) paths.push_back(&path);
    }
    std::ranges::stable_sort(paths, {},
                             [](const PathCase* path) { return path->readings.front().deviation; });
    std::vector<bool> has_path(cases_.leaves.size(), false);
    for (const PathCase* path : paths) {
      const auto& [a, b, rail] = path->test;
      if (taken_[a] || taken_[b]) continue;
      if (cases_.are_across(a, b)) {
        const std::size_t leaf_a = cases_.of_node[a].leaf;
        const std::size_t leaf_b = cases_.of_node[b].leaf;
        if (cases_.round > last_round_for_paths || has_path[leaf_a] || has_path[leaf_b]) continue;
        has_path[leaf_a] = has_path[leaf_b] = true;
      }
      add(a, b, rail, PairPurpose::path);
    }
  }

  void add_controls() {
    const bool needed = std::ranges::any_of(
        tests_, [](const PlannedTest& planned) { return planned.purpose == PairPurpose::split; });
    if (!needed) return;
    std::size_t missing = control_pairs;
    for (Nodes nodes : free_nodes()) {
      shuffle(nodes, random_);
      for (std::size_t i = 0; i + 1 < nodes.size() && missing > 0; i += 2, --missing) {
        add_each_rail(nodes[i], nodes[i + 1], PairPurpose::control);
      }
    }
  }

  // The k-th node of a leaf with the k+1st of another. Where routes follow the number of the
  // receiver, as they mostly do, no two of these pairs share a link: those that do would slow each
  // other.
  void add_across() {
    if (cases_.leaves.size() < 2 || cases_.round != round_across_leaves) return;
    std::vector<Nodes> leaves = free_nodes();
    std::erase_if(leaves, [](const Nodes& nodes) { return nodes.empty(); });
    shuffle(leaves, random_);
    for (std::size_t i = 0; i + 1 < leaves.size(); i += 2) {
      const std::size_t count = std::min(leaves[i].size(), leaves[i + 1].size());
      for (std::size_t k = 0; k < count; ++k) {
        add_each_rail(leaves[i][k], leaves[i + 1][(k + 1) % count], PairPurpose::across);
      }
    }
  }

  bool is_empty() const { return tests_.empty(); }
  std::vector<PlannedTest> take() { return std::move(tests_); }

 private:
  void add(NodeIndex a, NodeIndex b, std::optional<std::size_t> rail, PairPurpose purpose) {
    tests_.push_back({{a, b, rail}, purpose, false, {}});
    taken_[a] = taken_[b] = true;
  }

  void add_each_rail(NodeIndex a, NodeIndex b, PairPurpose purpose) {
    for (std::size_t rail = 0; rail < rails_of(a, b); ++rail) add(a, b, rail, purpose);
  }

  // A node whose rails nobody named has one.
  std::size_t rails_of(NodeIndex a, NodeIndex b) const {
    return std::max<std::size_t>(
        1, std::min(cases_.nodes[a].rails.size(), cases_.nodes[b].rails.size()));
  }

  // Bad and silent ones, then those that waited, then doubtful ones: partners may run out.
  Nodes suspects_by_urgency() {
    std::vector<Nodes> by_urgency(3);
    for (NodeIndex node = 0; node < cases_.nodes.size(); ++node) {
      const NodeCase& found = cases_.of_node[node];
      if (found.is<Untested>()) by_urgency[1].push_back(node);
      if (found.is<Confirmed>()) by_urgency[0].push_back(node);
      if (!found.is<Suspect>()) continue;
      by_urgency[std::ranges::any_of(found.readings, fails) ? 0 : 2].push_back(node);
    }
    Nodes ordered;
    for (Nodes& nodes : by_urgency) {
      shuffle(nodes, random_);
      ordered.insert(ordered.end(), nodes.begin(), nodes.end());
    }
    return ordered;
  }

  void add_suspect(NodeIndex node) {
    const std::optional<NodeIndex> partner = partner_for(node);
    if (!partner) return;  // it waits
    const NodeCase& found = cases_.of_node[node];
    const bool is_known = found.is<Confirmed>() || readings_with_good(found.readings) > 0;
    if (is_known && rails_of(node, *partner) > 1) {
      add_each_rail(node, *partner, PairPurpose::split);
    } else {
      add(node, *partner, {}, PairPurpose::confirm);
    }
  }

  bool was_partner(NodeIndex a, NodeIndex b) const {
    return std::ranges::any_of(cases_.of_node[a].readings,
                               [&](const PairReading& reading) { return reading.partner == b; });
  }

  // From a random place on, so that no node is everybody's partner.
  std::optional<NodeIndex> pick(const Nodes& from, NodeIndex node, bool any) {
    if (from.empty()) return std::nullopt;
    const std::size_t first = static_cast<std::size_t>(random_() % from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      const NodeIndex other = from[(first + i) % from.size()];
      const NodeCase& found = cases_.of_node[other];
      const bool fits = found.is<Good>() || (any && (found.is<Suspect>() || found.is<Untested>()));
      if (fits && other != node && !taken_[other] && !was_partner(node, other)) return other;
    }
    return std::nullopt;
  }

  std::optional<NodeIndex> partner_for(NodeIndex node) {
    const auto& leaves = cases_.leaves;
    const std::size_t leaf = cases_.of_node[node].leaf;
    if (const auto mate = pick(leaves[leaf], node, false)) return mate;
    const std::size_t first = static_cast<std::size_t>(random_() % leaves.size());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const std::size_t other = (first + i) % leaves.size();
      if (other == leaf) continue;
      if (const auto borrowed = pick(leaves[other], node, false)) return borrowed;
    }
    // Nobody is known to be good anywhere: whoever it was not with.
    if (std::ranges::any_of(cases_.of_node, &NodeCase::is<Good>)) return std::nullopt;
    Nodes all = leaves[leaf];
    for (NodeIndex other = 0; other < cases_.nodes.size(); ++other) {
      if (cases_.are_across(node, other)) all.push_back(other);
    }
    return pick(all, node, true);
  }

  std::vector<Nodes> free_nodes() const {
    std::vector<Nodes> free = cases_.leaves;
    for (Nodes& leaf : free) {
      std::erase_if(
          leaf, [&](NodeIndex node) { return taken_[node] || !cases_.of_node[node].is<Good>(); });
    }
    return free;
  }

  const Cases& cases_;
  std::mt19937_64& random_;
  std::vector<bool> taken_;  // nodes of this round, and busy ones
  std::vector<PlannedTest> tests_;
};

// What the round that `cases` is in tests; nothing: all is told. `busy` nodes are in no test. Pure
// but for `random`.
std::vector<PlannedTest> plan(const Cases& cases, const std::vector<bool>& busy,
                              std::mt19937_64& random) {
  RoundPlan round(cases, busy, random);
  if (cases.round == 1) round.add_spread();
  if (!round.is_empty()) return round.take();
  // Also in the first round, where no leaf has two nodes.
  round.add_suspects();
  round.add_paths();
  round.add_controls();
  round.add_across();
  return round.take();
}

}  // namespace

FaultSearch::FaultSearch(std::vector<PairNode> nodes, SearchSettings settings)
    : cases_(std::move(nodes), std::move(settings)),
      random_(cases_.settings.seed),
      busy_(cases_.nodes.size(), false) {}

std::optional<PairRound> FaultSearch::next_round() {
  if (cases_.is_over) return std::nullopt;
  std::erase_if(round_, [this](const PlannedTest& planned) {
    return busy_[planned.test.a] || busy_[planned.test.b];
  });
  if (cases_.round > 0) judge(cases_, round_);
  round_.clear();
  if (!cases_.is_over && cases_.round < cases_.settings.limits.max_rounds) {
    ++cases_.round;
    round_ = plan(cases_, busy_, random_);
    if (round_.empty()) --cases_.round;
  }
  if (round_.empty()) {
    conclude(cases_);
    return std::nullopt;
  }
  PairRound round{cases_.round, {}};
  for (const PlannedTest& planned : round_) round.tests.push_back(planned.test);
  return round;
}

bool FaultSearch::add(const PairResult& result) {
  const auto planned = std::ranges::find(round_, result.test, &PlannedTest::test);
  if (planned == round_.end() || planned->has_result) return false;
  planned->has_result = true;
  planned->gb_per_s = result.gb_per_s;
  return true;
}

}  // namespace muster
