// Finds the node, the rail or the path that makes a group of nodes slow, by tests of pairs that run
// at the same time. No clock, no thread: next_round() says what to test, add() takes what came out,
// verdicts() holds what follows when there is nothing left to test.
//
//   A  spread: a random matching below each leaf
//   B  confirm: each member of a pair that was not good, with a known-good partner of its own
//   C  across leaves, one rail at a time, for the ways between them
//   then what is confirmed is split by rail, and a pair whose members are both good elsewhere is
//   tried again
//
// Round C rides along with B on the nodes that B leaves idle, so that a fault of a node does not
// hide one of a link and neither takes more than three rounds.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "health/model/finding.h"

namespace muster {

// What a result of a pair is called beside all others, what is known of one node from the pairs it
// was in, and what follows from it. Pure.
//
//   open ──a good pair with a known-good partner──► cleared
//     └──two bad or two unknown, beyond noise──► confirmed ──its rails are tested──► named

// The nouns of a search: nodes below leaf switches, a test of two nodes, and what is said at
// the end. Bandwidths are GB/s, deviations are fractions.

// The place of a node in the list that a search was given.
using NodeIndex = std::size_t;

struct PairNode {
  std::string name;
  std::string leaf;                // where rails have switches of their own: the group of them
  std::vector<std::string> rails;  // HCAs, in the same order on every node: "mlx5_0"
};

// Both ways at once. Without a rail: over all of them, the slowest counts.
struct PairTest {
  NodeIndex a = 0;
  NodeIndex b = 0;
  std::optional<std::size_t> rail;
  friend bool operator==(const PairTest&, const PairTest&) = default;
};

struct PairResult {
  PairTest test;
  std::optional<double> gb_per_s;  // nothing: there was no result
};

// Tests that run at the same time. A rail of a node is in one of them at most.
struct PairRound {
  int number = 1;
  std::vector<PairTest> tests;
};

// What a number that deviates is called.
struct SearchLimits {
  double bad_below_median = 0.05;
  // Between the two a pair counts neither as bad nor as good, and is measured again: at 2 % of
  // noise one of 25 good pairs, and one of 2,000 that are 10 % slow is better than this.
  double doubtful_below_median = 0.035;
  // The mean of all measurements of what is named lies this many deviations of a mean below the
  // median: at 2 % of noise and 1,024 nodes two chance results in a row come about once in 25 runs.
  double deviations_to_name = 5.75;
  // Of fewer results than this the noise is taken to be 2 % at least.
  std::size_t results_for_noise = 8;
  double noise_of_few = 0.02;
  // A second rail of one node is named beyond this: beyond 2.5 one of seven good ones is in every
  // 23rd node, here in every 600th.
  double deviations_of_a_second_rail = 3.5;
  // A leaf with half of its pairs bad is in trouble itself. Of fewer bad pairs than this one or two
  // nodes may be the cause: there round B decides.
  double leaf_guard = 0.5;
  std::size_t leaf_guard_min_pairs = 3;
  int max_rounds = 6;  // one fault takes three; more only while partners are lacking
};

struct SearchSettings {
  std::uint64_t seed = 0;       // new for each run and logged: two bad nodes shall part
  std::optional<double> floor;  // GB/s, of a rail or of the slowest of all
  SearchLimits limits;
};

enum class FaultKind {
  node,   // itself: GPU, PCIe, memory; all of its rails, or none of them alone
  rail,   // of a node: its HCA, cable or leaf port
  path,   // between two nodes that are good elsewhere: a link of it, if they are below two leaves
  leaf,   // trouble of all below it: nobody is drained
  infra,  // of most leaves: nobody is drained
  doubtful,  // a node bad twice, within the noise: watch it
  clean      // pairs do not show it: bisect the group, then it is the user's or infra
};

struct FaultVerdict {
  FaultKind kind = FaultKind::clean;
  std::vector<std::string> names = {};  // the node; the two nodes of a path; the leaves
  std::string rail = {};                // of kind rail
  bool no_result = false;               // it does not answer, rather than being slow
  bool path_possible = false;           // its partner was below another leaf
  std::vector<std::string> evidence = {};
};

inline constexpr std::array<std::string_view, 7> fault_kind_words{
    "node", "rail", "path", "leaf", "infra", "doubtful", "clean"};
constexpr std::string_view word_of(FaultKind kind) {
  return fault_kind_words.at(static_cast<std::size_t>(kind));
}
// Only a node and its rails are drained.
constexpr bool drains(FaultKind kind) {
  return kind == FaultKind::node || kind == FaultKind::rail;
}

enum class PairGrade { good, doubtful, bad, unknown };

// What is usual for one kind of test, from all results of it, and what a result is called beside
// that. Robust: the median and the median of the distances from it. One lane for tests over all
// rails, else one for each rail.
class Baseline {
 public:
  Baseline() = default;
  Baseline(std::vector<std::vector<double>> values_by_lane, std::optional<double> floor,
           const SearchLimits& limits);

  PairGrade grade(std::size_t lane, std::optional<double> value) const;
  // From the median, as a fraction of it: -0.1 is 10 % slower.
  double deviation(std::size_t lane, double value) const;
  // One standard deviation of a healthy result, as a fraction: as measured; and as it is assumed
  // before anything is named, since a few results may be alike by chance.
  double noise() const { return noise_; }
  double noise_to_name() const {
    return is_of_few_ ? std::max(noise_, limits_.noise_of_few) : noise_;
  }
  double median(std::size_t lane) const { return lane < medians_.size() ? medians_[lane] : 0; }

 private:
  std::vector<double> medians_;
  double noise_ = 0;
  bool is_of_few_ = true;
  std::optional<double> floor_;
  SearchLimits limits_;
};

// Whether `count` results with this mean deviation are beyond chance.
bool is_beyond_noise(double mean_deviation, std::size_t count, double noise, double deviations);

// One measurement of a node.
struct PairReading {
  NodeIndex partner = 0;
  bool partner_is_good = false;  // known by now
  bool is_explained = false;     // the partner failed with a known-good one: it says nothing here
  bool across = false;           // the partner is below another leaf
  int round = 0;
  PairGrade grade = PairGrade::unknown;
  double deviation = 0;
  std::optional<double> gb_per_s;
  std::size_t weight = 1;  // results that the deviation is the mean of
};

enum class SuspectState { open, cleared, confirmed };

// Bad or silent.
bool fails(const PairReading& reading);
// Together with a node that is known to be good.
bool failed_with_good(const std::vector<PairReading>& readings);

SuspectState state_of(const std::vector<PairReading>& readings, double noise,
                      const SearchLimits& limits);

// Bad twice or more; short of `confirmed` only by the noise.
bool is_bad_twice(const std::vector<PairReading>& readings);
// It was its silence that counted.
bool gave_no_result(const std::vector<PairReading>& readings);
bool had_bad_pair_across(const std::vector<PairReading>& readings);
// Pairs with known-good partners: after two of them nothing more is asked.
std::size_t readings_with_good(const std::vector<PairReading>& readings);

// Of rails that were tested one by one: all, when some are bad and none is good. Else the worst one
// that is bad, others that are bad beyond noise (of eight good rails one would be below the limit
// too often), and silent ones of a node that gave no result before.
std::vector<std::size_t> failing_rails(const std::vector<PairReading>& rails, bool was_silent,
                                       double noise, const SearchLimits& limits);

// All rails as one reading: as bad as the worst one, or as all of them on the average when all
// fail.
PairReading reading_of_rails(const std::vector<PairReading>& rails,
                             const std::vector<std::size_t>& failing);

// "with n5 in round 2: 43.1 GB/s, 10.3 % below the median".
std::string text_of(const PairReading& reading, const std::string& partner);

// ---- the cases

// What a search knows of each node and of the ways between two, and what the results of a round add
// to that. Data and pure functions: the same cases and results give the same verdicts.
//
//   Untested ──a good pair──► Good ◄──cleared──┐
//      └──another──► Suspect ──────────────────┤
//                        ├──bad twice, beyond noise──► Confirmed ──named──► Settled
//                        └──nothing more to ask──► Settled
//   any of them ──its leaf is in trouble──► Excluded

// What tests of a node's rails one by one gave.
struct RailSplit {
  std::vector<PairReading> rails;
  std::vector<std::size_t> failing;  // places in `rails`
};

struct Untested {};
struct Good {};
struct Suspect {
  std::optional<RailSplit> split;
};
struct Confirmed {
  std::optional<RailSplit> split;
};
struct Settled {};   // named, doubtful, or not to be told
struct Excluded {};  // all below its leaf are in trouble: nobody is blamed

struct NodeCase {
  std::size_t leaf = 0;                                                         // in Cases::leaves
  std::variant<Untested, Good, Suspect, Confirmed, Settled, Excluded> state{};  // by `readings`
  std::vector<PairReading> readings;  // kept to the end: partners are judged by them as well

  template <class State>
  bool is() const {
    return std::holds_alternative<State>(state);
  }
};

// Two nodes that were slow together. Of `readings` the first one made it a case.
struct PathCase {
  PairTest test;
  std::vector<PairReading> readings;
  bool is_settled = false;
};

struct Cases {
  Cases(std::vector<PairNode> given, SearchSettings with);
  bool are_across(NodeIndex a, NodeIndex b) const { return of_node[a].leaf != of_node[b].leaf; }
  const std::string& leaf_name(std::size_t leaf) const { return nodes[leaves[leaf].front()].leaf; }

  // Given.
  std::vector<PairNode> nodes;
  SearchSettings settings;
  std::vector<std::vector<NodeIndex>> leaves;
  std::size_t rails = 1;  // of the node that has most

  // Found so far.
  int round = 0;  // the last one that was begun
  std::vector<NodeCase> of_node;
  std::vector<PathCase> of_path;
  Baseline over_all_rails;
  Baseline across;  // of one rail each, below two leaves
  std::vector<FaultVerdict> verdicts;
  bool is_over = false;
};

// Why two nodes are tested: below one leaf; a suspect with somebody else; its rails one by one, and
// those of good nodes to compare with; the ways between leaves; two that were slow together, again.
enum class PairPurpose { spread, confirm, split, control, across, path };

struct PlannedTest {
  PairTest test;
  PairPurpose purpose = PairPurpose::spread;
  bool has_result = false;
  std::optional<double> gb_per_s;  // nothing by the end of its round: unknown
};

// All tests of the round that count.
void judge(Cases& cases, const std::vector<PlannedTest>& tests);

// There is nothing left to test: names what is open, or says that nothing was found.
void conclude(Cases& cases);

// ---- the search

class FaultSearch {
 public:
  FaultSearch(std::vector<PairNode> nodes, SearchSettings settings);

  // What has no result by now is unknown. Nothing: it is done.
  std::optional<PairRound> next_round();
  // False: the round has no such test, or has its result.
  bool add(const PairResult& result);
  // Somebody else has the node: its tests of this round count for nobody, and it is in no later
  // one. What it showed before stays.
  void leave_out(NodeIndex node) { busy_[node] = true; }

  const std::vector<FaultVerdict>& verdicts() const { return cases_.verdicts; }
  int rounds() const { return cases_.round; }
  // Of the tests over all rails, as a fraction.
  double noise() const { return cases_.over_all_rails.noise(); }
  // Of the same tests; 0: none gave a number.
  double median_gb_per_s() const { return cases_.over_all_rails.median(0); }

 private:
  Cases cases_;
  std::mt19937_64 random_;
  std::vector<PlannedTest> round_;
  std::vector<bool> busy_;
};

}  // namespace muster
