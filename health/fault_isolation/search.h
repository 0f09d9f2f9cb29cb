// Finds the node, the rail or the link that makes a group of nodes slow, by tests of pairs that run
// at the same time. A state machine without a clock or a thread: next_round() says what to test,
// add() takes what came out, verdicts() holds what follows when there is nothing left to test.
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

#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "health/fault_isolation/suspect.h"

namespace muster {

class Localisation {
 public:
  Localisation(std::vector<LocaliseNode> nodes, LocaliseSettings settings);

  // What has no result by now is unknown. Nothing: it is done.
  std::optional<PairRound> next_round();
  // False: the round has no such test, or has its result.
  bool add(const PairResult& result);
  // Somebody else has the node: its tests of this round count for nobody, and it is in no later
  // one. What it showed before stays.
  void leave_out(NodeIndex node) { is_gone_[node] = true; }

  const std::vector<LocaliseVerdict>& verdicts() const { return verdicts_; }
  int rounds() const { return round_; }
  // Of the tests over all rails, as a fraction.
  double noise() const { return over_all_rails_.noise(); }
  // Of the same tests; 0: none gave a number.
  double median_gb_per_s() const { return over_all_rails_.median(0); }

 private:
  enum class Standing { untested, good, suspect, confirmed, settled, guarded };
  enum class Purpose { spread, confirm, split, control, across, path };
  struct NodeCase {
    std::size_t leaf = 0;
    Standing standing = Standing::untested;
    std::vector<Look> looks;
    std::vector<RailReading> rails;  // empty: not split
    std::vector<std::size_t> failing_rails;
  };
  struct Planned {
    PairTest test;
    Purpose purpose = Purpose::spread;
    std::optional<double> gb_per_s;
    bool has_result = false;
  };
  // Two nodes that were slow together.
  struct PathCase {
    PairTest test;
    std::vector<Look> looks;
    bool is_settled = false;
  };
  using Leaves = std::vector<std::vector<NodeIndex>>;
  using Key = std::tuple<NodeIndex, NodeIndex, std::size_t>;

  // Planning, in localisation_plan.cpp.
  void plan_spread();
  void plan_suspects();
  void plan_suspect(NodeIndex node);
  void plan_paths();
  void plan_controls();
  void plan_across_leaves();
  Leaves free_nodes() const;
  std::vector<NodeIndex> suspects_by_urgency();
  std::optional<NodeIndex> partner_for(NodeIndex node);
  std::optional<NodeIndex> pick(const std::vector<NodeIndex>& from, NodeIndex node, bool any);
  bool was_partner(NodeIndex a, NodeIndex b) const;
  void plan_pair(NodeIndex a, NodeIndex b, std::optional<std::size_t> rail, Purpose purpose);
  void plan_on_each_rail(NodeIndex a, NodeIndex b, Purpose purpose);
  std::size_t rails_of(NodeIndex a, NodeIndex b) const;

  // Judging, in localisation_judge.cpp.
  void judge_round();
  void judge_spread();
  void guard_leaves();
  void judge_confirm();
  void judge_split();
  void judge_across();
  void judge_paths();
  void settle_suspects();
  void settle(NodeIndex node);
  void guard_confirmed_leaves();
  void guard(std::size_t leaf, std::vector<std::string> evidence);
  void take_split(NodeIndex node, NodeIndex partner, std::vector<RailReading> rails, double noise);
  void add_look(NodeIndex node, const Planned& planned);
  Look look_of(const Planned& planned, NodeIndex partner, const Baseline& baseline) const;
  std::vector<std::vector<double>> values_by_rail(std::initializer_list<Purpose> purposes) const;

  // Verdicts, in localisation_verdict.cpp.
  void name_node(NodeIndex node);
  void name_doubtful(NodeIndex node);
  void name_path(const PathCase& path);
  void finish();
  void name_open_pairs();
  std::vector<std::string> evidence_of(NodeIndex node) const;

  bool is_across(NodeIndex a, NodeIndex b) const { return cases_[a].leaf != cases_[b].leaf; }

  std::vector<LocaliseNode> nodes_;
  LocaliseSettings settings_;
  std::mt19937_64 random_;
  std::size_t rails_ = 0;
  std::vector<std::string> leaf_names_;
  Leaves leaves_;
  std::vector<NodeCase> cases_;
  std::vector<PathCase> paths_;
  std::vector<PairResult> across_results_;
  Baseline over_all_rails_;
  Baseline across_;

  int round_ = 0;
  bool is_done_ = false;
  std::vector<Planned> planned_;
  std::map<Key, std::size_t> place_of_test_;
  std::vector<bool> occupied_;  // nodes in this round
  std::vector<bool> is_gone_;   // nodes that were left out
  std::vector<LocaliseVerdict> verdicts_;
};

}  // namespace muster
