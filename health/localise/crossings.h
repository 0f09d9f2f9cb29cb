// What pairs across leaves say about the parts they use: each link on the way, and each rail of a
// node. A part that is in bad pairs and in no good one is the suspect. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "health/fault_isolation/baseline.h"

namespace muster {

// Links first, in the order of FabricRoutes::links; then all rails of the first node, and so on.
using PartIndex = std::size_t;

struct PartCase {
  int good = 0;
  int bad = 0;
  int unknown = 0;
  int doubtful = 0;
  double deviation_sum = 0;            // of those that gave a result
  std::vector<std::uint32_t> failing;  // places of the tests that were bad or unknown

  int crossings() const { return good + bad + unknown + doubtful; }
};

struct NamedParts {
  std::vector<PartIndex> parts;        // several: what was measured does not tell them apart
  std::vector<std::uint32_t> failing;  // tests that nothing named before explains
};

struct Naming {
  std::vector<NamedParts> named;
  std::vector<PartIndex> open;  // far too slow for chance, without the pairs that would prove it
};

class Crossings {
 public:
  // `routes` outlives it.
  Crossings(const FabricRoutes& routes, std::size_t nodes, std::size_t rails);

  std::size_t links() const { return routes_->links.size(); }
  std::size_t parts() const { return links() + nodes_ * rails_; }
  PartIndex part_of(NodeIndex node, std::size_t rail) const {
    return links() + node * rails_ + rail;
  }
  bool is_link(PartIndex part) const { return part < links(); }
  NodeIndex node_of(PartIndex part) const { return (part - links()) / rails_; }
  std::size_t rail_of(PartIndex part) const { return (part - links()) % rails_; }

  // Of a test on one rail: each part once, and each direction of a link as 2 * link (+ 1).
  void parts_of(const PairTest& test, std::vector<PartIndex>& parts,
                std::vector<std::size_t>& directions) const;

  // Those of the rails, counted from 0, on which two nodes may be tested at the same time: no two
  // of them go over a link in one direction. All, mostly; else the first is another for each pair.
  std::vector<std::size_t> rails_apart(NodeIndex a, NodeIndex b, std::size_t rails) const;
  bool rails_share_links() const { return routes_->rails_share_links; }

  // All results so far, judged together: medians move as more come in.
  void judge(const std::vector<PairResult>& results, const Baseline& baseline);

  const PartCase& part(PartIndex part) const { return cases_[part]; }
  // Failed, never good, and bad on the average: worth another test.
  bool is_suspected(PartIndex part, const LocaliseLimits& limits) const;
  bool has_suspects(const LocaliseLimits& limits) const;
  // Those that explain the failing pairs, the one that explains most first; what it explains is no
  // evidence against others.
  Naming name(const std::vector<PairResult>& results, double noise,
              const LocaliseLimits& limits) const;

 private:
  // Of a part, from the tests that nothing explains yet.
  struct Evidence {
    std::vector<std::uint32_t> failing;
    int bad = 0;
    int unknown = 0;
    std::size_t known = 0;
    double mean_deviation = 0;
  };
  Evidence evidence_of(PartIndex part, const std::vector<PairResult>& results,
                       const std::vector<bool>& explained) const;
  bool is_proof(PartIndex part, const Evidence& evidence, const std::vector<PairResult>& results,
                double noise, const LocaliseLimits& limits) const;

  const FabricRoutes* routes_;
  std::size_t nodes_;
  std::size_t rails_;
  std::vector<PartCase> cases_;
  std::vector<double> deviations_;     // of the tests
  mutable std::vector<LinkHop> hops_;  // reused: routes are asked for a million times
};

}  // namespace muster
