// Elastic jobs: how many nodes they may have, and which of an attempt's nodes train together. Of
// any other attempt every node takes part from its placement to its end.
#pragma once

#include <cstddef>
#include <vector>

#include "scheduler/state/state.h"

namespace muster {

struct NodeRange {
  std::size_t least = 1;
  std::size_t most = 1;
};

bool is_elastic(const JobSpec& spec);
bool is_live(const JobSpec& spec);            // its members change while it runs
bool restarts_to_scale(const JobSpec& spec);  // elastic, and not live
NodeRange node_range(const JobSpec& spec);    // both are one number when the job is not elastic

// What its ranks do counts for the attempt. Of an elastic attempt: it is a member; before there are
// any: it does not go.
bool takes_part(const Attempt& attempt, const AttemptNode& node);
bool takes_part(const Attempt& attempt, const Rank& rank);

// Held and not on its way out, but not a member yet: it was taken while the others ran.
bool is_joiner(const AttemptNode& node);

std::size_t active_nodes(const Attempt& attempt);
std::size_t member_nodes(const Attempt& attempt);
bool has_unfinished_ranks(const Attempt& attempt, std::size_t node_index);

// A rank of a member has ended well: the others are about to.
bool is_finishing(const Attempt& attempt);

StopBegun as_stop(const NodeLeaving& leaves);  // as if the attempt were that node's alone

// Those of the members that stay, in their order, then the ranks of the nodes that come.
std::vector<RankId> next_members(const Attempt& attempt, const std::vector<NodeId>& leaving,
                                 const std::vector<NodeId>& coming);

}  // namespace muster
