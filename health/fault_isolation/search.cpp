#include "health/fault_isolation/search.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

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

double at_rank(std::vector<double> values, std::size_t rank) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// Of two the faster one is the measure, and its distance (none) the noise: a bad pair of two is
// no reason to believe in noise.
double upper_median(const std::vector<double>& values) {
  return at_rank(values, values.size() / 2);
}
double lower_median(const std::vector<double>& values) {
  return values.empty() ? 0 : at_rank(values, (values.size() - 1) / 2);
}

double relative(double value, double median) {
  return median > 0 ? value / median - 1 : 0;
}

// The standard deviation of a normal distribution is 1.4826 times its median distance.
constexpr double deviations_per_median_distance = 1.4826;

std::size_t count_of(const std::vector<PairReading>& readings, PairGrade grade) {
  return static_cast<std::size_t>(std::ranges::count_if(readings, [&](const PairReading& reading) {
    return reading.grade == grade && !reading.is_explained;
  }));
}

// All that was measured counts, also what was not bad: picking the bad ones would see faults in
// noise.
bool is_slow_beyond_noise(const std::vector<PairReading>& readings, double noise,
                          const SearchLimits& limits) {
  double sum = 0;
  std::size_t known = 0;
  for (const PairReading& reading : readings) {
    if (reading.grade == PairGrade::unknown || reading.is_explained) continue;
    sum += reading.deviation * static_cast<double>(reading.weight);
    known += reading.weight;
  }
  return known > 0 &&
         is_beyond_noise(sum / static_cast<double>(known), known, noise, limits.deviations_to_name);
}

void take_mean(PairReading& reading, const std::vector<PairReading>& rails) {
  double deviations = 0;
  double gb_per_s = 0;
  reading.weight = 0;
  for (const PairReading& rail : rails) {
    if (!rail.gb_per_s) continue;
    deviations += rail.deviation;
    gb_per_s += *rail.gb_per_s;
    ++reading.weight;
  }
  reading.deviation = deviations / static_cast<double>(reading.weight);
  reading.gb_per_s = gb_per_s / static_cast<double>(reading.weight);
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

Baseline::Baseline(std::vector<std::vector<double>> values_by_lane, std::optional<double> floor,
                   const SearchLimits& limits)
    : floor_(floor), limits_(limits) {
  std::vector<double> distances;
  for (const auto& values : values_by_lane) {
    medians_.push_back(upper_median(values));
    for (const double value : values)
      distances.push_back(std::abs(relative(value, medians_.back())));
  }
  noise_ = deviations_per_median_distance * lower_median(distances);
  is_of_few_ = distances.size() < limits_.results_for_noise;
}

double Baseline::deviation(std::size_t lane, double value) const {
  return lane < medians_.size() ? relative(value, medians_[lane]) : 0;
}

PairGrade Baseline::grade(std::size_t lane, std::optional<double> value) const {
  if (!value) return PairGrade::unknown;
  const double off = deviation(lane, *value);
  if ((floor_ && *value < *floor_) || off < -limits_.bad_below_median) return PairGrade::bad;
  return off < -limits_.doubtful_below_median ? PairGrade::doubtful : PairGrade::good;
}

bool is_beyond_noise(double mean_deviation, std::size_t count, double noise, double deviations) {
  if (count == 0) return false;
  return mean_deviation <= -deviations * noise / std::sqrt(static_cast<double>(count));
}

bool fails(const PairReading& reading) {
  return reading.grade == PairGrade::bad || reading.grade == PairGrade::unknown;
}

bool failed_with_good(const std::vector<PairReading>& readings) {
  return std::ranges::any_of(readings, [](const PairReading& reading) {
    return fails(reading) && reading.partner_is_good;
  });
}

SuspectState state_of(const std::vector<PairReading>& readings, double noise,
                      const SearchLimits& limits) {
  if (readings.empty()) return SuspectState::open;
  if (readings.back().grade == PairGrade::good) return SuspectState::cleared;
  const std::size_t bad = count_of(readings, PairGrade::bad);
  const std::size_t unknown = count_of(readings, PairGrade::unknown);
  if (failed_with_good(readings) &&
      (unknown >= 2 || (bad >= 2 && is_slow_beyond_noise(readings, noise, limits)))) {
    return SuspectState::confirmed;
  }
  if (bad + unknown == 0 && readings_with_good(readings) > 0) return SuspectState::cleared;
  return SuspectState::open;
}

bool is_bad_twice(const std::vector<PairReading>& readings) {
  return count_of(readings, PairGrade::bad) + count_of(readings, PairGrade::unknown) >= 2 &&
         failed_with_good(readings);
}

bool gave_no_result(const std::vector<PairReading>& readings) {
  return count_of(readings, PairGrade::unknown) >= 2;
}

bool had_bad_pair_across(const std::vector<PairReading>& readings) {
  return std::ranges::any_of(
      readings, [](const PairReading& reading) { return fails(reading) && reading.across; });
}

std::size_t readings_with_good(const std::vector<PairReading>& readings) {
  return static_cast<std::size_t>(std::ranges::count_if(readings, &PairReading::partner_is_good));
}

std::vector<std::size_t> failing_rails(const std::vector<PairReading>& rails, bool was_silent,
                                       double noise, const SearchLimits& limits) {
  std::vector<std::size_t> failing;
  double worst = 0;
  bool is_any_good = false;
  bool is_silent = false;
  for (const PairReading& rail : rails) {
    if (rail.grade == PairGrade::bad) worst = std::min(worst, rail.deviation);
    is_any_good |= rail.grade == PairGrade::good;
    is_silent |= was_silent && rail.grade == PairGrade::unknown;
  }
  const double beyond =
      std::max(limits.bad_below_median, limits.deviations_of_a_second_rail * noise);
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const PairReading& rail = rails[i];
    const bool bad = (worst < 0 && !is_any_good) ||
                     (rail.grade == PairGrade::bad &&
                      ((rail.deviation <= worst && !is_silent) || rail.deviation <= -beyond));
    const bool silent = rail.grade == PairGrade::unknown;
    if (silent ? was_silent : bad) failing.push_back(i);
  }
  return failing;
}

PairReading reading_of_rails(const std::vector<PairReading>& rails,
                             const std::vector<std::size_t>& failing) {
  PairReading reading;
  reading.grade = PairGrade::doubtful;  // good rails do not clear what lies behind them
  bool has_bad = false;
  for (const std::size_t i : failing) has_bad |= rails[i].grade == PairGrade::bad;
  if (!failing.empty()) reading.grade = has_bad ? PairGrade::bad : PairGrade::unknown;
  for (const PairReading& rail : rails) {
    if (rail.grade == PairGrade::unknown || rail.deviation > reading.deviation) continue;
    reading.deviation = rail.deviation;
    reading.gb_per_s = rail.gb_per_s;
  }
  if (has_bad && failing.size() == rails.size()) take_mean(reading, rails);
  return reading;
}

std::string text_of(const PairReading& reading, const std::string& partner) {
  const std::string begin = "with " + partner + " in round " + std::to_string(reading.round) + ": ";
  if (!reading.gb_per_s) return begin + "no result";
  char text[96];
  std::snprintf(text, sizeof text, "%.1f GB/s, %.1f %% %s the median", *reading.gb_per_s,
                100 * std::abs(reading.deviation), reading.deviation < 0 ? "below" : "above");
  return begin + text;
}

}  // namespace muster
