// A workbench with an elastic job: which of its hosts are up, and what people ask about its
// members.
#pragma once

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/scheduler/bench.h"

namespace muster::test {

inline JobBuilder two_to_four() {
  return a_job().elastic(2, 4);
}

class ElasticBench : public Bench {
 public:
  // Runs on the first `up` hosts; the others are down.
  ElasticBench(const JobSubmitted& job, int up) {
    const auto hosts = static_cast<int>(job.target.nodes.size());
    for (int i = up + 1; i <= hosts; ++i) unlink(i, LinkFailureKind::unreachable);
    for (int i = 1; i <= up; ++i) link(i);
    submit(job);
    obey();
    REQUIRE(is_in<Running>());
  }

  static NodeId id(int node) { return NodeId{node_name(node)}; }
  const AttemptNode* held(int node) const { return find_node(attempt(), id(node)); }
  bool owns(int node) const { return state.nodes.at(id(node)).owner == JobId{"train"}; }

  std::vector<int> members() const {
    std::vector<int> ranks;
    for (const RankId& rank : attempt().members.ranks)
      ranks.push_back(static_cast<int>(rank.value));
    return ranks;
  }
  std::int64_t epoch() const { return attempt().members.epoch; }
  std::vector<std::string> member_nodes() const {
    std::vector<std::string> names;
    for (const AttemptNode& node : attempt().nodes) {
      if (node.membership.is_member) names.push_back(node.id.value);
    }
    return names;
  }

  // Its agent does only this.
  void obey_once(int node) {
    const auto work = pending_work(state, id(node));
    REQUIRE(work);
    obey(*work);
  }
  using Bench::obey;

  void ready(int node) { observe(NodeReady{JobId{"train"}, attempt().id, id(node)}); }
  // Comes up, is prepared, starts its ranks and becomes a member.
  void come(int node, int agent = 1) {
    link(node, agent);
    obey();
    REQUIRE(held(node));
    REQUIRE(held(node)->started);
    ready(node);
    obey();
    REQUIRE(held(node)->membership.is_member);
  }
  void kill_rank(int rank) { exit_rank(rank, {0, 9}); }
  void kill_and_obey(int rank) { exit_and_obey(rank, {0, 9}); }
  void end_members() {
    for (const int rank : members()) exit_rank(rank, {});
  }
};

}  // namespace muster::test
