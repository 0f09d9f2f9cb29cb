// What a search knows of each node and of the ways between two, and what the results of a round add
// to that. Data and pure functions: the same cases and results give the same verdicts.
//
//   Untested ──a good pair──► Good ◄──cleared──┐
//      └──another──► Suspect ──────────────────┤
//                        ├──bad twice, beyond noise──► Confirmed ──named──► Settled
//                        └──nothing more to ask──► Settled
//   any of them ──its leaf is in trouble──► Excluded
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "health/fault_isolation/suspect.h"

namespace muster {

// What tests of a node's rails one by one gave.
struct RailSplit {
  std::vector<RailReading> rails;
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

}  // namespace muster
