// Which pairs across leaves the next round tests.
#include <algorithm>

#include "health/fault_isolation/search.h"

namespace muster {

namespace {

constexpr int last_round_of_survey = 3;

}  // namespace

void Localisation::plan_across_leaves() {
  if (leaves_.size() < 2) return;
  if (crossings_) {
    plan_survey();
  } else if (round_ == 2) {
    plan_blind_survey();
  }
}

// Each link and, where one rail does not show in the others' tests, each rail.
WantedParts Localisation::parts_of_first_survey() const {
  WantedParts wanted;
  wanted.tests.assign(crossings_->parts(), rails_ > 1 ? 1 : 0);
  wanted.suspected.assign(crossings_->parts(), 0);
  std::fill_n(wanted.tests.begin(), crossings_->links(), std::uint8_t{2});
  return wanted;
}

// What is suspected, and each link that nobody crossed. A suspected link was crossed by two pairs
// of the same two leaves: two of others tell which.
WantedParts Localisation::parts_of_second_survey() const {
  WantedParts wanted;
  wanted.tests.assign(crossings_->parts(), 0);
  wanted.suspected.assign(crossings_->parts(), 0);
  for (PartIndex part = 0; part < crossings_->parts(); ++part) {
    if (!crossings_->is_suspected(part, settings_.limits)) continue;
    wanted.suspected[part] = 1;
    wanted.tests[part] = crossings_->is_link(part) ? 2 : (rails_ > 1 ? 1 : 0);
  }
  aim_at_suspects(wanted);
  const auto ways = a_pair_over_each_link();
  for (PartIndex part = 0; part < crossings_->links(); ++part) {
    if (ways[part] && crossings_->part(part).crossings() == 0) {
      wanted.tests[part] = 2;
      wanted.targets.push_back(target_of(part, *ways[part]));
    }
  }
  return wanted;
}

// What is suspected is tried from where it was met before: below the same leaves.
void Localisation::aim_at_suspects(WantedParts& wanted) const {
  for (PartIndex part = 0; part < crossings_->parts(); ++part) {
    if (!wanted.suspected[part] || wanted.tests[part] == 0) continue;
    const PairTest& test = across_results_[crossings_->part(part).failing.front()].test;
    if (crossings_->is_link(part)) {
      wanted.targets.push_back(target_of(part, test));
    } else {
      const NodeIndex node = crossings_->node_of(part);
      wanted.targets.push_back({part, test.rail.value_or(0), {node}});
    }
  }
}

PartTarget Localisation::target_of(PartIndex link, const PairTest& over_it) const {
  PartTarget target{link, over_it.rail.value_or(0), {}};
  for (const NodeIndex node : {over_it.a, over_it.b}) {
    const auto& mates = leaves_[cases_[node].leaf];
    target.from.insert(target.from.end(), mates.begin(), mates.end());
  }
  return target;
}

// A pair that crosses each link, from one node of each leaf to all of the next one.
std::vector<std::optional<PairTest>> Localisation::a_pair_over_each_link() const {
  std::vector<std::optional<PairTest>> pairs(crossings_->links());
  std::vector<PartIndex> parts;
  std::vector<std::size_t> directions;
  for (std::size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    for (const NodeIndex to : leaves_[(leaf + 1) % leaves_.size()]) {
      const NodeIndex from = leaves_[leaf].front();
      for (std::size_t rail = 0; rail < rails_of(from, to); ++rail) {
        crossings_->parts_of({from, to, rail}, parts, directions);
        for (const PartIndex part : parts) {
          if (crossings_->is_link(part) && !pairs[part]) pairs[part] = PairTest{from, to, rail};
        }
      }
    }
  }
  return pairs;
}

// Names that more than one link could bear, where other pairs may still tell them apart.
WantedParts Localisation::parts_to_separate() const {
  WantedParts wanted = parts_of_second_survey();
  wanted.tests.assign(crossings_->parts(), 0);
  wanted.targets.clear();
  wanted.only_apart = true;
  for (const NamedParts& group : naming_.named) {
    if (group.parts.size() < 2) continue;
    for (const PartIndex part : group.parts) wanted.tests[part] = 2;
  }
  for (const PartIndex part : naming_.open) wanted.tests[part] = 2;
  aim_at_suspects(wanted);
  return wanted;
}

// In time for three rounds: what is suspected, and what was never crossed if there is a round
// anyway or nothing was found yet. Later only links that share a name: the rest is noise.
void Localisation::plan_survey() {
  const bool is_first = across_results_.empty();
  if (!is_first && round_ <= last_round_of_survey) {
    const bool is_node_named = !verdicts_.empty() && planned_.empty();
    if (is_node_named && !crossings_->has_suspects(settings_.limits)) return;
  }
  const bool is_late = round_ > last_round_of_survey;
  const WantedParts wanted = is_first  ? parts_of_first_survey()
                             : is_late ? parts_to_separate()
                                       : parts_of_second_survey();
  const auto pairs = plan_across(free_nodes(), wanted, *crossings_, rails_, busy_, random_);
  for (const auto& [a, b] : pairs) {
    for (const std::size_t rail : crossings_->rails_apart(a, b, rails_of(a, b))) {
      plan_pair(a, b, rail, Purpose::across);
    }
  }
}

void Localisation::plan_blind_survey() {
  for (const auto& [a, b] : plan_across_blindly(free_nodes(), random_)) {
    plan_on_each_rail(a, b, Purpose::across);
  }
}

}  // namespace muster
