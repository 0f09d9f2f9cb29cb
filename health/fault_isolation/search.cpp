#include "health/fault_isolation/search.h"

#include <algorithm>

namespace muster {

Localisation::Localisation(std::vector<LocaliseNode> nodes, LocaliseSettings settings)
    : nodes_(std::move(nodes)),
      settings_(std::move(settings)),
      random_(settings_.seed),
      cases_(nodes_.size()),
      is_gone_(nodes_.size(), false) {
  std::map<std::string, std::size_t> leaf_places;
  for (NodeIndex node = 0; node < nodes_.size(); ++node) {
    const auto [place, is_new] = leaf_places.emplace(nodes_[node].leaf, leaves_.size());
    if (is_new) {
      leaves_.emplace_back();
      leaf_names_.push_back(nodes_[node].leaf);
    }
    leaves_[place->second].push_back(node);
    cases_[node].leaf = place->second;
    rails_ = std::max(rails_, nodes_[node].rails.size());
  }
  rails_ = std::max<std::size_t>(rails_, 1);
}

std::optional<PairRound> Localisation::next_round() {
  if (is_done_) return std::nullopt;
  std::erase_if(planned_, [this](const Planned& planned) {
    return is_gone_[planned.test.a] || is_gone_[planned.test.b];
  });
  if (round_ > 0) judge_round();
  planned_.clear();
  place_of_test_.clear();
  occupied_ = is_gone_;
  if (!is_done_ && round_ < settings_.limits.max_rounds) {
    ++round_;
    if (round_ == 1) plan_spread();
    // Nothing to match below any leaf: then the second round is the first.
    if (planned_.empty()) {
      plan_suspects();
      plan_paths();
      plan_controls();
      plan_across_leaves();
    }
    if (planned_.empty()) --round_;
  }
  if (planned_.empty()) {
    finish();
    return std::nullopt;
  }
  PairRound round{round_, {}};
  for (std::size_t i = 0; i < planned_.size(); ++i) {
    const PairTest& test = planned_[i].test;
    round.tests.push_back(test);
    place_of_test_[{test.a, test.b, test.rail.value_or(rails_)}] = i;
  }
  return round;
}

bool Localisation::add(const PairResult& result) {
  const PairTest& test = result.test;
  const auto place = place_of_test_.find({test.a, test.b, test.rail.value_or(rails_)});
  if (place == place_of_test_.end()) return false;
  Planned& planned = planned_[place->second];
  if (planned.has_result) return false;
  planned.has_result = true;
  planned.gb_per_s = result.gb_per_s;
  return true;
}

}  // namespace muster
