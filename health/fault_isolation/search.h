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
#include <variant>
#include <vector>

#include "health/fault_isolation/suspect.h"

namespace muster {

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
