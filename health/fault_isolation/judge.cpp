#include "health/fault_isolation/search.h"

#include <algorithm>
#include <initializer_list>
#include <map>

namespace muster {

namespace {

using Tests = std::vector<PlannedTest>;

// Two with known-good partners after the pair that was bad first, or in the third round; more only
// where nobody was known to be good.
constexpr std::size_t readings_enough = 3;
constexpr std::size_t readings_with_good_min = 2;
constexpr std::size_t readings_max = 4;
constexpr int last_usual_round = 3;

// One lane for tests over all rails, else one for each rail.
std::vector<std::vector<double>> values_of(const Tests& tests, std::size_t lanes,
                                           std::initializer_list<PairPurpose> purposes) {
  std::vector<std::vector<double>> values(lanes);
  for (const PlannedTest& planned : tests) {
    const bool is_asked = std::ranges::find(purposes, planned.purpose) != purposes.end();
    if (!is_asked || !planned.gb_per_s) continue;
    values[planned.test.rail.value_or(0)].push_back(*planned.gb_per_s);
  }
  return values;
}

// The first node's.
PairReading reading_of(const Cases& cases, const PlannedTest& planned, const Baseline& baseline) {
  const std::size_t lane = planned.test.rail.value_or(0);
  PairReading reading;
  reading.partner = planned.test.b;
  reading.across = cases.are_across(planned.test.a, planned.test.b);
  reading.round = cases.round;
  reading.gb_per_s = planned.gb_per_s;
  reading.grade = baseline.grade(lane, planned.gb_per_s);
  if (planned.gb_per_s) reading.deviation = baseline.deviation(lane, *planned.gb_per_s);
  return reading;
}

void add_reading(Cases& cases, NodeIndex node, const PlannedTest& planned) {
  PairReading reading = reading_of(cases, planned, cases.over_all_rails);
  if (reading.partner == node) reading.partner = planned.test.a;
  cases.of_node[node].readings.push_back(reading);
}

// ---- verdicts

std::vector<std::string> evidence_of(const Cases& cases, NodeIndex node) {
  std::vector<std::string> lines;
  for (const PairReading& reading : cases.of_node[node].readings) {
    lines.push_back(text_of(reading, cases.nodes[reading.partner].name));
  }
  return lines;
}

// One rail: its HCA, cable or leaf port. All of them, or none alone: the node.
void name_confirmed(Cases& cases, NodeIndex node) {
  NodeCase& found = cases.of_node[node];
  const RailSplit split = std::get<Confirmed>(found.state).split.value_or(RailSplit{});
  found.state = Settled{};
  FaultVerdict verdict{.kind = FaultKind::node,
                       .names = {cases.nodes[node].name},
                       .no_result = gave_no_result(found.readings),
                       .path_possible = had_bad_pair_across(found.readings),
                       .evidence = evidence_of(cases, node)};
  if (split.failing.empty() || split.failing.size() == split.rails.size()) {
    cases.verdicts.push_back(std::move(verdict));
    return;
  }
  verdict.kind = FaultKind::rail;
  for (const std::size_t rail : split.failing) {
    verdict.rail = cases.nodes[node].rails[rail];
    verdict.no_result = split.rails[rail].grade == PairGrade::unknown;
    cases.verdicts.push_back(verdict);
  }
}

void name_path(Cases& cases, const PathCase& path) {
  const std::string& a = cases.nodes[path.test.a].name;
  const std::string& b = cases.nodes[path.test.b].name;
  std::vector<std::string> evidence;
  for (const PairReading& reading : path.readings) {
    evidence.push_back(a + " " + text_of(reading, b));
  }
  cases.verdicts.push_back({.kind = FaultKind::path,
                            .names = {a, b},
                            .no_result = gave_no_result(path.readings),
                            .path_possible = true,
                            .evidence = std::move(evidence)});
}

void exclude_leaf(Cases& cases, std::size_t leaf, std::vector<std::string> evidence) {
  for (const NodeIndex node : cases.leaves[leaf]) cases.of_node[node].state = Excluded{};
  cases.verdicts.push_back(
      {.kind = FaultKind::leaf, .names = {cases.leaf_name(leaf)}, .evidence = std::move(evidence)});
}

// ---- the first round

struct LeafPairs {
  std::size_t all = 0;
  std::size_t silent = 0;
  double deviation_sum = 0;
  std::vector<std::string> failed;
};

std::vector<LeafPairs> pairs_of_leaves(const Cases& cases, const Tests& tests) {
  std::vector<LeafPairs> leaves(cases.leaves.size());
  for (const PlannedTest& planned : tests) {
    if (planned.purpose != PairPurpose::spread) continue;
    LeafPairs& leaf = leaves[cases.of_node[planned.test.a].leaf];
    const PairReading reading = reading_of(cases, planned, cases.over_all_rails);
    ++leaf.all;
    leaf.silent += reading.grade == PairGrade::unknown;
    leaf.deviation_sum += reading.deviation;
    if (!fails(reading)) continue;
    const std::string& partner = cases.nodes[planned.test.b].name;
    leaf.failed.push_back(cases.nodes[planned.test.a].name + " " + text_of(reading, partner));
  }
  return leaves;
}

bool is_in_trouble(const LeafPairs& leaf, double noise, const SearchLimits& limits) {
  if (leaf.failed.size() < limits.leaf_guard_min_pairs) return false;
  const auto failed = static_cast<double>(leaf.failed.size());
  if (failed < limits.leaf_guard * static_cast<double>(leaf.all)) return false;
  if (leaf.silent >= limits.leaf_guard_min_pairs) return true;
  const std::size_t known = leaf.all - leaf.silent;
  return known > 0 && is_beyond_noise(leaf.deviation_sum / static_cast<double>(known), known, noise,
                                      limits.deviations_to_name);
}

void exclude_leaves(Cases& cases, const Tests& tests) {
  std::vector<LeafPairs> leaves = pairs_of_leaves(cases, tests);
  std::vector<std::size_t> in_trouble;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (is_in_trouble(leaves[i], cases.over_all_rails.noise_to_name(), cases.settings.limits)) {
      in_trouble.push_back(i);
    }
  }
  if (in_trouble.size() * 2 <= leaves.size()) {
    for (const std::size_t leaf : in_trouble) {
      exclude_leaf(cases, leaf, std::move(leaves[leaf].failed));
    }
    return;
  }
  // No leaf is in trouble beside others that are: then it is what they share.
  FaultVerdict verdict{.kind = FaultKind::infra};
  for (const std::size_t leaf : in_trouble) {
    verdict.names.push_back(cases.leaf_name(leaf));
    verdict.evidence.push_back(cases.leaf_name(leaf) + ": " +
                               std::to_string(leaves[leaf].failed.size()) + " of " +
                               std::to_string(leaves[leaf].all) + " pairs bad");
  }
  cases.verdicts.push_back(std::move(verdict));
  cases.is_over = true;
}

// The fleet is measured here: later rounds hold too many suspects for a median.
void judge_spread(Cases& cases, const Tests& tests) {
  cases.over_all_rails = Baseline(values_of(tests, 1, {PairPurpose::spread, PairPurpose::confirm}),
                                  cases.settings.floor, cases.settings.limits);
  exclude_leaves(cases, tests);
  if (cases.is_over) return;
  for (const PlannedTest& planned : tests) {
    const auto& [a, b, rail] = planned.test;
    if (planned.purpose != PairPurpose::spread || cases.of_node[a].is<Excluded>()) continue;
    const PairReading reading = reading_of(cases, planned, cases.over_all_rails);
    for (const NodeIndex node : {a, b}) {
      NodeCase& found = cases.of_node[node];
      add_reading(cases, node, planned);
      found.state = Suspect{};
      if (reading.grade == PairGrade::good) found.state = Good{};
    }
    if (reading.grade == PairGrade::bad) cases.of_path.push_back({planned.test, {reading}, true});
  }
}

// ---- all rounds

void judge_confirm(Cases& cases, const Tests& tests) {
  // Nothing to match below any leaf: the first pairs across are the fleet.
  if (cases.over_all_rails.median(0) == 0) {
    cases.over_all_rails = Baseline(values_of(tests, 1, {PairPurpose::confirm}),
                                    cases.settings.floor, cases.settings.limits);
  }
  for (const PlannedTest& planned : tests) {
    if (planned.purpose != PairPurpose::confirm) continue;
    const bool good = cases.over_all_rails.grade(0, planned.gb_per_s) == PairGrade::good;
    for (const NodeIndex node : {planned.test.a, planned.test.b}) {
      NodeCase& found = cases.of_node[node];
      if (found.is<Good>()) continue;  // the partner: it lends itself
      add_reading(cases, node, planned);
      if (good) {
        found.state = Good{};
      } else if (!found.is<Suspect>()) {
        found.state = Suspect{};
      }
    }
  }
}

void judge_across(Cases& cases, const Tests& tests) {
  const bool has_any = std::ranges::any_of(
      tests, [](const PlannedTest& planned) { return planned.purpose == PairPurpose::across; });
  if (!has_any) return;
  cases.across = Baseline(values_of(tests, cases.rails, {PairPurpose::across}),
                          cases.settings.floor, cases.settings.limits);
  for (const PlannedTest& planned : tests) {
    if (planned.purpose != PairPurpose::across) continue;
    const PairReading reading = reading_of(cases, planned, cases.across);
    if (fails(reading)) cases.of_path.push_back({planned.test, {reading}, false});
  }
}

void judge_rails(Cases& cases, const PairTest& test, std::vector<PairReading> rails, double noise) {
  NodeCase& found = cases.of_node[test.a];
  const bool was_silent = std::ranges::any_of(found.readings, [](const PairReading& reading) {
    return reading.grade == PairGrade::unknown;
  });
  RailSplit split{std::move(rails), {}};
  split.failing = failing_rails(split.rails, was_silent, noise, cases.settings.limits);
  PairReading reading = reading_of_rails(split.rails, split.failing);
  reading.partner = test.b;
  reading.partner_is_good = cases.of_node[test.b].is<Good>();
  reading.across = cases.are_across(test.a, test.b);
  reading.round = cases.round;
  found.readings.push_back(reading);
  if (!found.is<Confirmed>()) {
    found.state = Suspect{std::move(split)};
    return;
  }
  found.state = Confirmed{std::move(split)};
  name_confirmed(cases, test.a);
}

// Beside the rails of known-good pairs; without any, beside the others of the same nodes.
void judge_split(Cases& cases, const Tests& tests) {
  auto values = values_of(tests, cases.rails, {PairPurpose::split, PairPurpose::control});
  const bool has_controls = std::ranges::any_of(tests, [](const PlannedTest& planned) {
    return planned.purpose == PairPurpose::control && planned.gb_per_s;
  });
  if (!has_controls) {
    std::vector<double> all;
    for (const auto& of_rail : values) all.insert(all.end(), of_rail.begin(), of_rail.end());
    values.assign(cases.rails, all);
  }
  const Baseline baseline(std::move(values), cases.settings.floor, cases.settings.limits);
  for (std::size_t first = 0; first < tests.size(); ++first) {
    const PairTest& test = tests[first].test;
    if (tests[first].purpose != PairPurpose::split || test.rail != 0) continue;
    std::vector<PairReading> rails;
    for (std::size_t i = first; i < tests.size() && tests[i].test.a == test.a; ++i) {
      rails.push_back(reading_of(cases, tests[i], baseline));
    }
    judge_rails(cases, test, std::move(rails), baseline.noise_to_name());
  }
}

void judge_paths(Cases& cases, const Tests& tests) {
  for (const PlannedTest& planned : tests) {
    if (planned.purpose != PairPurpose::path) continue;
    for (PathCase& path : cases.of_path) {
      if (!(path.test == planned.test)) continue;
      const Baseline& baseline = planned.test.rail ? cases.across : cases.over_all_rails;
      path.readings.push_back(reading_of(cases, planned, baseline));
      path.readings.back().partner_is_good = true;
      path.is_settled = true;
      if (state_of(path.readings, baseline.noise_to_name(), cases.settings.limits) ==
          SuspectState::confirmed) {
        name_path(cases, path);
      }
    }
  }
}

// ---- what follows for each node

// Who is good moves from round to round, and with it what a pair says of its other node.
void weigh_readings(Cases& cases) {
  for (NodeCase& found : cases.of_node) {
    for (PairReading& reading : found.readings) {
      reading.partner_is_good = cases.of_node[reading.partner].is<Good>();
    }
  }
  for (NodeCase& found : cases.of_node) {
    for (PairReading& reading : found.readings) {
      reading.is_explained =
          !reading.partner_is_good && failed_with_good(cases.of_node[reading.partner].readings);
    }
  }
}

void settle(Cases& cases, NodeIndex node) {
  NodeCase& found = cases.of_node[node];
  switch (state_of(found.readings, cases.over_all_rails.noise_to_name(), cases.settings.limits)) {
    case SuspectState::cleared:
      found.state = Good{};
      return;
    case SuspectState::confirmed:
      found.state = Confirmed{std::get<Suspect>(found.state).split};
      return;
    case SuspectState::open:
      break;
  }
  const bool has_partners = readings_with_good(found.readings) >= readings_with_good_min;
  const bool is_late = found.readings.size() >= readings_enough || cases.round >= last_usual_round;
  const bool is_enough = (has_partners && is_late) || found.readings.size() >= readings_max;
  if (!is_enough) return;
  found.state = Settled{};
  if (!is_bad_twice(found.readings)) return;
  cases.verdicts.push_back({.kind = FaultKind::doubtful,
                            .names = {cases.nodes[node].name},
                            .evidence = evidence_of(cases, node)});
}

// Of most nodes below a leaf none is the cause. Small leaves get here, and large ones in which each
// bad node met another.
void exclude_confirmed_leaves(Cases& cases) {
  if (cases.leaves.size() < 2) return;
  for (std::size_t leaf = 0; leaf < cases.leaves.size(); ++leaf) {
    std::vector<std::string> evidence;
    std::size_t confirmed = 0;
    for (const NodeIndex node : cases.leaves[leaf]) {
      if (!cases.of_node[node].is<Confirmed>()) continue;
      ++confirmed;
      for (const std::string& line : evidence_of(cases, node)) {
        evidence.push_back(cases.nodes[node].name + " " + line);
      }
    }
    if (confirmed >= 2 && confirmed * 2 > cases.leaves[leaf].size()) {
      exclude_leaf(cases, leaf, std::move(evidence));
    }
  }
}

void settle_suspects(Cases& cases) {
  weigh_readings(cases);
  for (NodeIndex node = 0; node < cases.nodes.size(); ++node) {
    if (cases.of_node[node].is<Suspect>()) settle(cases, node);
  }
  exclude_confirmed_leaves(cases);
  for (NodeIndex node = 0; node < cases.nodes.size(); ++node) {
    const auto* confirmed = std::get_if<Confirmed>(&cases.of_node[node].state);
    if (confirmed == nullptr) continue;
    if (confirmed->split || cases.nodes[node].rails.size() < 2) name_confirmed(cases, node);
  }
  // Both are good with others: was it the way between them?
  for (PathCase& path : cases.of_path) {
    const bool both_good =
        cases.of_node[path.test.a].is<Good>() && cases.of_node[path.test.b].is<Good>();
    if (path.readings.size() != 1) continue;
    path.is_settled = !both_good || cases.round >= last_usual_round;
  }
}

// Bad pairs of which neither node found a partner to be told by.
void name_open_pairs(Cases& cases) {
  for (const PathCase& path : cases.of_path) {
    const bool is_open =
        cases.of_node[path.test.a].is<Suspect>() && cases.of_node[path.test.b].is<Suspect>();
    if (is_open && path.readings.size() == 1) name_path(cases, path);
  }
  for (NodeIndex node = 0; node < cases.nodes.size(); ++node) {
    if (cases.of_node[node].is<Confirmed>()) name_confirmed(cases, node);
  }
}

}  // namespace

Cases::Cases(std::vector<PairNode> given, SearchSettings with)
    : nodes(std::move(given)), settings(std::move(with)), of_node(nodes.size()) {
  std::map<std::string, std::size_t> places;
  for (NodeIndex node = 0; node < nodes.size(); ++node) {
    const auto [place, is_new] = places.emplace(nodes[node].leaf, leaves.size());
    if (is_new) leaves.emplace_back();
    leaves[place->second].push_back(node);
    of_node[node].leaf = place->second;
    rails = std::max(rails, nodes[node].rails.size());
  }
}

void judge(Cases& cases, const std::vector<PlannedTest>& tests) {
  if (cases.round == 1) judge_spread(cases, tests);
  if (cases.is_over) return;
  judge_confirm(cases, tests);
  judge_across(cases, tests);
  judge_split(cases, tests);
  judge_paths(cases, tests);
  settle_suspects(cases);
}

void conclude(Cases& cases) {
  if (!cases.is_over) name_open_pairs(cases);
  cases.is_over = true;
  const bool is_named = std::ranges::any_of(cases.verdicts, [](const FaultVerdict& verdict) {
    return verdict.kind != FaultKind::doubtful;
  });
  if (is_named) return;
  constexpr std::size_t bisect_min = 4;
  const std::string good = "pairs are good: ";
  const std::string why = "the fault is the user's or infra";
  cases.verdicts.push_back(
      {.kind = FaultKind::clean,
       .evidence = {cases.nodes.size() < bisect_min
                        ? good + why
                        : good + "bisect the group; if halves are good, " + why}});
}

}  // namespace muster
