// Which nodes of its target a job could have now, and why it cannot have the others.
#pragma once

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/model/state.h"

namespace muster {

struct Usable {
  int reluctance = 0;  // lower is better: 0 fine, 1 its link is down, 2 to be avoided
};
struct Busy {};     // held by, or kept for, another job: it will come free
struct Drained {};  // until somebody undrains it
struct Unusable {   // waiting does not help this job
  bool link = false;
};
using Standing = std::variant<Usable, Busy, Drained, Unusable>;

struct Candidate {
  NodeId id;
  Standing standing;
  std::string
      why_not;  // "h02 is drained: fan"; empty when usable, and for nodes outside the placement
};

// One for each node of the target, in its order.
std::vector<Candidate> candidates(const State& state, const Job& job,
                                  const std::set<NodeId>& taken);

// The best `count` usable nodes, or fewer. Nodes of `previous` keep their index where they can.
std::vector<NodeId> choose_nodes(const std::vector<Candidate>& candidates, std::size_t count,
                                 const std::vector<NodeId>& previous);

// A permanent link failure counts against a job if it happened since the job last entered the
// queue: older ones may have been mended and are tried again.
const LinkFailure* permanent_failure(const State& state, const Job& job, const NodeId& node);

}  // namespace muster
