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

#include <optional>
#include <random>
#include <vector>

#include "health/fault_isolation/judge.h"

namespace muster {

// What the round that `cases` is in tests; nothing: all is told. `busy` nodes are in no test. Pure
// but for `random`.
std::vector<PlannedTest> plan(const Cases& cases, const std::vector<bool>& busy,
                              std::mt19937_64& random);

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
