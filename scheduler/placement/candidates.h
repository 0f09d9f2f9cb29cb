// Which nodes of its target a job could have now, and why it cannot have the others.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "scheduler/state/turn.h"

namespace muster {

// In the order of preference.
enum class PlacementPenalty { none, silent, suspect, link_down, suspect_and_down, avoided };

struct Usable {
  PlacementPenalty penalty = PlacementPenalty::none;
};
struct Busy {};     // held by, or kept for, another job: it will come free
struct Drained {};  // until somebody undrains it, or its notice or its time aside is over
struct Unusable {   // waiting does not help this job
  bool link = false;
};
using CandidateStanding = std::variant<Usable, Busy, Drained, Unusable>;

struct Candidate {
  NodeId id;
  CandidateStanding standing;
  std::string
      why_not;  // "h02 is drained: fan"; empty when usable, and for nodes outside the placement
};

// The job file keeps it from this node.
bool is_placed_out(const Job& job, const NodeId& id);

// Where the job's latest attempt was; null: it had none.
const PastAttempt* previous_of(const Job& job);

// One for each node of the target, in its order.
std::vector<Candidate> candidates(Turn& turn, const Job& job);

// The best `count` usable nodes, or fewer. Those that were in the gang keep their index where they
// can; what was a spare is the first to fill a gap.
std::vector<NodeId> choose_nodes(const std::vector<Candidate>& candidates, std::size_t count,
                                 const PastAttempt* previous);

// At most `count` of what is left beside the gang; none that is to be avoided.
std::vector<NodeId> choose_spares(const std::vector<Candidate>& candidates, std::size_t count,
                                  const std::vector<NodeId>& gang, const PastAttempt* previous);

std::size_t spares_wanted(const Job& job);

// A permanent link failure counts against a job if it happened since the job last entered the
// queue: older ones may have been mended and are tried again.
const LinkFailure* permanent_failure(const State& state, const Job& job, const NodeId& node);

}  // namespace muster
