// What the results of a round say.
#include <algorithm>

#include "health/fault_isolation/search.h"

namespace muster {

namespace {

// Two with known-good partners after the pair that was bad first, or in the third round; more only
// where nobody was known to be good.
constexpr std::size_t looks_enough = 3;
constexpr std::size_t looks_with_good_min = 2;
constexpr std::size_t looks_max = 4;
constexpr int last_usual_round = 3;

}  // namespace

std::vector<std::vector<double>> Localisation::values_by_rail(
    std::initializer_list<Purpose> purposes) const {
  std::vector<std::vector<double>> values(rails_);
  for (const Planned& planned : planned_) {
    const bool counts =
        std::find(purposes.begin(), purposes.end(), planned.purpose) != purposes.end();
    if (counts && planned.test.rail && planned.gb_per_s) {
      values[*planned.test.rail].push_back(*planned.gb_per_s);
    }
  }
  return values;
}

void Localisation::judge_round() {
  if (round_ == 1) {
    judge_spread();
    if (is_done_) return;
  }
  judge_confirm();
  judge_across();
  judge_split();
  judge_paths();
  settle_suspects();
}

Look Localisation::look_of(const Planned& planned, NodeIndex partner,
                           const Baseline& baseline) const {
  Look look;
  look.partner = partner;
  look.across = is_across(planned.test.a, planned.test.b);
  look.round = round_;
  look.gb_per_s = planned.gb_per_s;
  const std::size_t lane = planned.test.rail.value_or(0);
  look.reading = baseline.read(lane, planned.gb_per_s);
  if (planned.gb_per_s) look.deviation = baseline.deviation(lane, *planned.gb_per_s);
  return look;
}

void Localisation::add_look(NodeIndex node, const Planned& planned) {
  const NodeIndex partner = planned.test.a == node ? planned.test.b : planned.test.a;
  cases_[node].looks.push_back(look_of(planned, partner, over_all_rails_));
}

// The fleet is measured here: later rounds hold too many suspects for a median.
void Localisation::judge_spread() {
  std::vector<double> values;
  for (const Planned& planned : planned_) {
    if (planned.gb_per_s) values.push_back(*planned.gb_per_s);
  }
  over_all_rails_ = Baseline({std::move(values)}, settings_.pair_floor, settings_.limits);
  guard_leaves();
  for (const Planned& planned : planned_) {
    if (planned.purpose != Purpose::spread) continue;
    const PairReading reading = over_all_rails_.read(0, planned.gb_per_s);
    for (const NodeIndex node : {planned.test.a, planned.test.b}) {
      if (cases_[node].standing == Standing::guarded) continue;
      cases_[node].standing = reading == PairReading::good ? Standing::good : Standing::suspect;
      add_look(node, planned);
    }
    if (reading == PairReading::bad && cases_[planned.test.a].standing != Standing::guarded) {
      paths_.push_back({planned.test, {look_of(planned, planned.test.b, over_all_rails_)}, true});
    }
  }
}

void Localisation::guard_leaves() {
  struct LeafPairs {
    std::size_t all = 0;
    std::size_t silent = 0;
    double deviation_sum = 0;
    std::vector<std::string> failed;
  };
  std::vector<LeafPairs> leaves(leaves_.size());
  for (const Planned& planned : planned_) {
    if (planned.purpose != Purpose::spread) continue;
    LeafPairs& leaf = leaves[cases_[planned.test.a].leaf];
    const Look look = look_of(planned, planned.test.b, over_all_rails_);
    ++leaf.all;
    leaf.silent += look.reading == PairReading::unknown;
    leaf.deviation_sum += look.deviation;
    if (look.reading != PairReading::bad && look.reading != PairReading::unknown) continue;
    const std::string& partner = nodes_[planned.test.b].name;
    leaf.failed.push_back(nodes_[planned.test.a].name + " " + text_of(look, partner));
  }
  const LocaliseLimits& limits = settings_.limits;
  std::vector<std::size_t> in_trouble;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const LeafPairs& leaf = leaves[i];
    const auto failed = static_cast<double>(leaf.failed.size());
    if (leaf.failed.size() < limits.leaf_guard_min_pairs ||
        failed < limits.leaf_guard * static_cast<double>(leaf.all)) {
      continue;
    }
    const std::size_t known = leaf.all - leaf.silent;
    const bool is_slow =
        known > 0 && is_beyond_noise(leaf.deviation_sum / static_cast<double>(known), known,
                                     over_all_rails_.noise(), limits.deviations_to_name);
    if (is_slow || leaf.silent >= limits.leaf_guard_min_pairs) in_trouble.push_back(i);
  }
  // No leaf is in trouble beside others that are: then it is what they share.
  if (in_trouble.size() * 2 > leaves_.size()) {
    LocaliseVerdict verdict;
    verdict.kind = LocaliseKind::infra;
    for (const std::size_t leaf : in_trouble) {
      verdict.names.push_back(leaf_names_[leaf]);
      verdict.evidence.push_back(leaf_names_[leaf] + ": " +
                                 std::to_string(leaves[leaf].failed.size()) + " of " +
                                 std::to_string(leaves[leaf].all) + " pairs bad");
    }
    verdicts_.push_back(std::move(verdict));
    is_done_ = true;
    return;
  }
  for (const std::size_t leaf : in_trouble) guard(leaf, std::move(leaves[leaf].failed));
}

void Localisation::guard(std::size_t leaf, std::vector<std::string> evidence) {
  for (const NodeIndex node : leaves_[leaf]) cases_[node].standing = Standing::guarded;
  LocaliseVerdict verdict;
  verdict.kind = LocaliseKind::leaf;
  verdict.names.push_back(leaf_names_[leaf]);
  verdict.evidence = std::move(evidence);
  verdicts_.push_back(std::move(verdict));
}

void Localisation::judge_confirm() {
  // Nothing to match below any leaf: the first pairs across are the fleet.
  if (over_all_rails_.median(0) == 0) {
    std::vector<double> values;
    for (const Planned& planned : planned_) {
      if (planned.purpose == Purpose::confirm && planned.gb_per_s) {
        values.push_back(*planned.gb_per_s);
      }
    }
    over_all_rails_ = Baseline({std::move(values)}, settings_.pair_floor, settings_.limits);
  }
  for (const Planned& planned : planned_) {
    if (planned.purpose != Purpose::confirm) continue;
    const bool good = over_all_rails_.read(0, planned.gb_per_s) == PairReading::good;
    for (const NodeIndex node : {planned.test.a, planned.test.b}) {
      NodeCase& found = cases_[node];
      if (found.standing == Standing::good) continue;  // the partner: it lends itself
      add_look(node, planned);
      found.standing = good ? Standing::good : Standing::suspect;
    }
  }
}

// Beside the rails of known-good pairs; without any, beside the others of the same nodes.
void Localisation::judge_split() {
  std::vector<std::vector<double>> values = values_by_rail({Purpose::split, Purpose::control});
  const bool has_controls =
      std::any_of(planned_.begin(), planned_.end(), [](const Planned& planned) {
        return planned.purpose == Purpose::control && planned.gb_per_s;
      });
  if (!has_controls) {
    std::vector<double> all;
    for (const auto& of_rail : values) all.insert(all.end(), of_rail.begin(), of_rail.end());
    values.assign(rails_, all);
  }
  const Baseline baseline(std::move(values), settings_.rail_floor, settings_.limits);
  for (std::size_t first = 0; first < planned_.size(); ++first) {
    const PairTest& test = planned_[first].test;
    if (planned_[first].purpose != Purpose::split || test.rail != 0) continue;
    std::vector<RailReading> rails;
    for (std::size_t i = first; i < planned_.size() && planned_[i].test.a == test.a; ++i) {
      const Look look = look_of(planned_[i], test.b, baseline);
      rails.push_back({look.reading, look.deviation, look.gb_per_s});
    }
    take_split(test.a, test.b, std::move(rails), baseline.noise());
  }
}

void Localisation::take_split(NodeIndex node, NodeIndex partner, std::vector<RailReading> rails,
                              double noise) {
  NodeCase& found = cases_[node];
  const bool was_silent = std::any_of(found.looks.begin(), found.looks.end(), [](const Look& look) {
    return look.reading == PairReading::unknown;
  });
  found.failing_rails = failing_rails(rails, was_silent, noise, settings_.limits);
  Look look = look_at_rails(rails, found.failing_rails);
  look.partner = partner;
  look.partner_is_good = cases_[partner].standing == Standing::good;
  look.across = is_across(node, partner);
  look.round = round_;
  found.looks.push_back(look);
  found.rails = std::move(rails);
  if (found.standing == Standing::confirmed) name_node(node);
}

void Localisation::judge_across() {
  std::vector<std::vector<double>> values(rails_);
  for (const Planned& planned : planned_) {
    if (planned.purpose == Purpose::across) {
      across_results_.push_back({planned.test, planned.gb_per_s});
    }
  }
  for (const PairResult& result : across_results_) {
    if (result.gb_per_s) values[*result.test.rail].push_back(*result.gb_per_s);
  }
  across_ = Baseline(std::move(values), settings_.rail_floor, settings_.limits);
  for (const Planned& planned : planned_) {
    if (planned.purpose != Purpose::across) continue;
    const Look look = look_of(planned, planned.test.b, across_);
    if (look.reading == PairReading::bad || look.reading == PairReading::unknown) {
      paths_.push_back({planned.test, {look}, false});
    }
  }
}

void Localisation::judge_paths() {
  for (const Planned& planned : planned_) {
    if (planned.purpose != Purpose::path) continue;
    for (PathCase& path : paths_) {
      if (!(path.test == planned.test)) continue;
      const Baseline& baseline = planned.test.rail ? across_ : over_all_rails_;
      path.looks.push_back(look_of(planned, planned.test.b, baseline));
      path.looks.back().partner_is_good = true;
      path.is_settled = true;
      if (state_of(path.looks, baseline.noise(), settings_.limits) == SuspectState::confirmed) {
        name_path(path);
      }
    }
  }
}

void Localisation::settle_suspects() {
  for (NodeCase& found : cases_) {
    for (Look& look : found.looks) {
      look.partner_is_good = cases_[look.partner].standing == Standing::good;
    }
  }
  for (NodeCase& found : cases_) {
    for (Look& look : found.looks) {
      look.is_explained = !look.partner_is_good && failed_with_good(cases_[look.partner].looks);
    }
  }
  for (NodeIndex node = 0; node < nodes_.size(); ++node) {
    if (cases_[node].standing == Standing::suspect) settle(node);
  }
  guard_confirmed_leaves();
  for (NodeIndex node = 0; node < nodes_.size(); ++node) {
    const NodeCase& found = cases_[node];
    const bool is_split = !found.rails.empty() || nodes_[node].rails.size() < 2;
    if (found.standing == Standing::confirmed && is_split) name_node(node);
  }
  // Both are good with others: was it the way between them?
  for (PathCase& path : paths_) {
    const bool both_good = cases_[path.test.a].standing == Standing::good &&
                           cases_[path.test.b].standing == Standing::good;
    if (path.looks.size() == 1) path.is_settled = !both_good || round_ >= last_usual_round;
  }
}

void Localisation::settle(NodeIndex node) {
  NodeCase& found = cases_[node];
  switch (state_of(found.looks, over_all_rails_.noise(), settings_.limits)) {
    case SuspectState::cleared:
      found.standing = Standing::good;
      return;
    case SuspectState::confirmed:
      found.standing = Standing::confirmed;
      return;
    case SuspectState::open:
      break;
  }
  const bool has_partners = looks_with_good(found.looks) >= looks_with_good_min;
  const bool is_late = found.looks.size() >= looks_enough || round_ >= last_usual_round;
  const bool is_enough = (has_partners && is_late) || found.looks.size() >= looks_max;
  if (!is_enough) return;
  found.standing = Standing::settled;
  if (is_bad_twice(found.looks)) name_doubtful(node);
}

// Of most nodes below a leaf none is the cause. Small leaves get here, and large ones in which each
// bad node met another.
void Localisation::guard_confirmed_leaves() {
  if (leaves_.size() < 2) return;
  for (std::size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    std::vector<std::string> evidence;
    std::size_t confirmed = 0;
    for (const NodeIndex node : leaves_[leaf]) {
      if (cases_[node].standing != Standing::confirmed) continue;
      ++confirmed;
      for (const std::string& line : evidence_of(node)) {
        evidence.push_back(nodes_[node].name + " " + line);
      }
    }
    if (confirmed >= 2 && confirmed * 2 > leaves_[leaf].size()) guard(leaf, std::move(evidence));
  }
}

}  // namespace muster
