// The nouns of a search: nodes below leaf switches, a test of two nodes, and what is said at
// the end. Bandwidths are GB/s, deviations are fractions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/finding.h"

namespace muster {

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

}  // namespace muster
