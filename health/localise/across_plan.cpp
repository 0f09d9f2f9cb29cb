#include "health/localise/across_plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace muster {

namespace {

using NodePairs = std::vector<std::pair<NodeIndex, NodeIndex>>;

// Another matching of leaves may separate or cover what this one cannot.
constexpr int matchings_tried = 3;
// Of a large leaf not all partners of a node are compared.
constexpr std::size_t partners_compared_max = 32;

// A link behind a leaf of 16 nodes is crossed by one pair of 32 from the two leaves of a test.
constexpr int pairs_sampled_max = 400;

constexpr long worth_of_suspect = 1000;
constexpr long worth_of_link = 10;
constexpr long worth_of_rail = 1;

class AcrossPlan {
 public:
  AcrossPlan(const Leaves& free, const WantedParts& wanted, const Crossings& crossings,
             std::size_t rails, const std::vector<bool>& busy)
      : free_(free), crossings_(crossings), wanted_(wanted), busy_(busy), rails_(rails) {
    std::iota(rails_.begin(), rails_.end(), std::size_t{0});
    for (std::size_t leaf = 0; leaf < free.size(); ++leaf) {
      for (const NodeIndex node : free[leaf]) {
        leaf_of_free_.resize(std::max(leaf_of_free_.size(), node + 1), none);
        leaf_of_free_[node] = leaf;
        all_free_.push_back(node);
      }
    }
  }

  // First of all: the pair that says most about each target, to another leaf each time.
  void aim(std::mt19937_64& random) {
    if (all_free_.empty()) return;
    for (const PartTarget& target : wanted_.targets) {
      std::vector<std::size_t> leaves_used;
      while (wanted_.tests[target.part] > 0 && aim_at(target, leaves_used, random)) {
      }
    }
  }

  void match(const std::vector<std::size_t>& order, std::mt19937_64& random) {
    std::size_t i = 0;
    for (; order.size() - i >= 2 && order.size() - i != 3; i += 2) {
      match_leaves(free_[order[i]], free_[order[i + 1]], random);
    }
    if (order.size() - i == 3) match_three(order[i], order[i + 1], order[i + 2], random);
  }

  long worth() const { return worth_; }
  NodePairs take_pairs() { return std::move(pairs_); }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  bool is_free(NodeIndex node) const {
    return node < leaf_of_free_.size() && leaf_of_free_[node] != none;
  }

  bool aim_at(const PartTarget& target, std::vector<std::size_t>& leaves_used,
              std::mt19937_64& random) {
    NodePairs best;
    int most = -1;
    for (int i = 0; i < pairs_sampled_max; ++i) {
      const NodeIndex a = target.from[random() % target.from.size()];
      const NodeIndex b = all_free_[random() % all_free_.size()];
      if (!is_free(a) || !is_free(b) || leaf_of_free_[a] == leaf_of_free_[b] ||
          std::count(leaves_used.begin(), leaves_used.end(), leaf_of_free_[b]) > 0) {
        continue;
      }
      const int clearness = clearness_of({a, b, target.rail}, target.part);
      if (clearness <= most || is_in_the_way(a, b) || !is_tested_on(a, b, target.rail)) continue;
      most = clearness;
      best = {{a, b}};
      if (clearness == clearest) break;
    }
    if (best.empty()) return false;
    leaves_used.push_back(leaf_of_free_[best.front().second]);
    take(best.front().first, best.front().second);
    return true;
  }

  static constexpr int clearest = 100;

  // -1: it does not cross the part, or another suspect. Best is a pair whose other parts were all
  // in good pairs.
  int clearness_of(const PairTest& test, PartIndex wanted) {
    crossings_.parts_of(test, parts_, directions_);
    bool crosses = false;
    int not_good = 0;
    for (const PartIndex part : parts_) {
      if (part == wanted) {
        crosses = true;
      } else if (wanted_.suspected[part]) {
        return -1;
      } else if (crossings_.part(part).good == 0) {
        ++not_good;
      }
    }
    if (!crosses) return -1;
    // Both directions of it in one pair leave none for another pair.
    const auto is_of_it = [wanted](std::size_t direction) { return direction / 2 == wanted; };
    const bool fills = std::count_if(directions_.begin(), directions_.end(), is_of_it) > 1;
    return clearest - not_good - (fills ? clearest / 2 : 0);
  }

  // Where rails share no links these are always all.
  const std::vector<std::size_t>& rails_of(NodeIndex a, NodeIndex b) {
    if (crossings_.rails_share_links()) apart_ = crossings_.rails_apart(a, b, rails_.size());
    return crossings_.rails_share_links() ? apart_ : rails_;
  }

  bool is_tested_on(NodeIndex a, NodeIndex b, std::size_t rail) {
    const auto& rails = rails_of(a, b);
    return std::find(rails.begin(), rails.end(), rail) != rails.end();
  }

  bool is_in_the_way(NodeIndex a, NodeIndex b) {
    for (const std::size_t rail : rails_of(a, b)) {
      crossings_.parts_of({a, b, rail}, parts_, directions_);
      for (const std::size_t direction : directions_) {
        if (busy_[direction]) return true;
      }
    }
    return false;
  }

  // None of an odd number is left out: half of each with half of each other.
  void match_three(std::size_t x, std::size_t y, std::size_t z, std::mt19937_64& random) {
    std::vector<std::vector<NodeIndex>> halves;
    for (const std::size_t leaf : {x, y, z}) {
      std::vector<NodeIndex> nodes = free_[leaf];
      shuffle(nodes, random);
      const auto middle = nodes.begin() + static_cast<std::ptrdiff_t>(nodes.size() / 2);
      halves.emplace_back(nodes.begin(), middle);
      halves.emplace_back(middle, nodes.end());
    }
    match_leaves(halves[0], halves[2], random);
    match_leaves(halves[3], halves[4], random);
    match_leaves(halves[5], halves[1], random);
  }

  void match_leaves(std::vector<NodeIndex> left, std::vector<NodeIndex> right,
                    std::mt19937_64& random) {
    shuffle(left, random);
    shuffle(right, random);
    const auto is_used = [this](NodeIndex node) { return !is_free(node); };
    right.erase(std::remove_if(right.begin(), right.end(), is_used), right.end());
    for (const NodeIndex node : left) {
      if (is_used(node)) continue;
      const std::size_t compared = std::min(right.size(), partners_compared_max);
      std::size_t best = compared;
      long most = 0;
      for (std::size_t i = 0; i < compared; ++i) {
        const long worth = worth_of(node, right[i]);
        if (worth <= most) continue;
        most = worth;
        best = i;
      }
      if (best == compared) continue;
      take(node, right[best]);
      worth_ += most;
      right.erase(right.begin() + static_cast<std::ptrdiff_t>(best));
    }
  }

  // 0: of no use, or in the way of another pair.
  long worth_of(NodeIndex a, NodeIndex b) {
    long sum = 0;
    for (const std::size_t rail : rails_of(a, b)) {
      crossings_.parts_of({a, b, rail}, parts_, directions_);
      for (const std::size_t direction : directions_) {
        if (busy_[direction]) return 0;
      }
      sum += worth_of_lane();
    }
    return sum;
  }

  long worth_of_lane() const {
    long sum = 0;
    int suspects = 0;
    bool one_is_wanted = false;
    for (const PartIndex part : parts_) {
      if (wanted_.suspected[part]) {
        ++suspects;
        one_is_wanted |= wanted_.tests[part] > 0;
      } else {
        sum += wanted_.tests[part] * (crossings_.is_link(part) ? worth_of_link : worth_of_rail);
      }
    }
    // Two suspects in one pair say little: better than nothing.
    if (one_is_wanted) sum += suspects == 1 ? worth_of_suspect : (wanted_.only_apart ? 0 : 1);
    return sum;
  }

  void take(NodeIndex a, NodeIndex b) {
    pairs_.emplace_back(a, b);
    leaf_of_free_[a] = leaf_of_free_[b] = none;
    for (const std::size_t rail : rails_of(a, b)) {
      crossings_.parts_of({a, b, rail}, parts_, directions_);
      for (const std::size_t direction : directions_) busy_[direction] = true;
      for (const PartIndex part : parts_) {
        if (wanted_.tests[part] > 0) --wanted_.tests[part];
      }
    }
  }

  const Leaves& free_;
  const Crossings& crossings_;
  WantedParts wanted_;
  std::vector<bool> busy_;
  std::vector<std::size_t> rails_;
  std::vector<std::size_t> apart_;  // reused
  NodePairs pairs_;
  long worth_ = 0;
  std::vector<std::size_t> leaf_of_free_;  // none: not free, or no longer
  std::vector<NodeIndex> all_free_;
  std::vector<PartIndex> parts_;
  std::vector<std::size_t> directions_;
};

std::vector<std::size_t> leaves_with_nodes(const Leaves& free) {
  std::vector<std::size_t> order;
  for (std::size_t leaf = 0; leaf < free.size(); ++leaf) {
    if (!free[leaf].empty()) order.push_back(leaf);
  }
  return order;
}

}  // namespace

NodePairs plan_across(const Leaves& free, const WantedParts& wanted, const Crossings& crossings,
                      std::size_t rails, const std::vector<bool>& busy, std::mt19937_64& random) {
  AcrossPlan aimed(free, wanted, crossings, rails, busy);
  aimed.aim(random);
  NodePairs best = AcrossPlan(aimed).take_pairs();
  long most = 0;
  std::vector<std::size_t> order = leaves_with_nodes(free);
  for (int i = 0; i < matchings_tried; ++i) {
    shuffle(order, random);
    AcrossPlan plan(aimed);
    plan.match(order, random);
    shuffle(order, random);
    plan.match(order, random);  // what is left over below leaves of unequal numbers
    if (plan.worth() <= most) continue;
    most = plan.worth();
    best = plan.take_pairs();
  }
  return best;
}

NodePairs plan_across_blindly(const Leaves& free, std::mt19937_64& random) {
  std::vector<std::size_t> order = leaves_with_nodes(free);
  shuffle(order, random);
  NodePairs pairs;
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    const auto& left = free[order[i]];
    const auto& right = free[order[i + 1]];
    const std::size_t count = std::min(left.size(), right.size());
    for (std::size_t k = 0; k < count; ++k) pairs.emplace_back(left[k], right[(k + 1) % count]);
  }
  return pairs;
}

}  // namespace muster
