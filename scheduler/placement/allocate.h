// Spares: nodes that a job holds ready, checked and given its files, to take the place of one that
// is lost, drained or unfit. They are kept while the job runs; too few of them stop nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/placement/candidates.h"

namespace muster {

// Whether a node that a job holds is fit to run it: connected, allowed, and past its start gate.
struct Unfit {
  NodeId node;
  Unfitness unfitness;
  std::string reason;
};

// What is wrong with it; nothing yet, when its answers are still awaited.
std::optional<Unfit> unfit(Turn& turn, const Job& job, const AttemptNode& node);

// Why it leaves its attempt for that.
StopReason reason_of(Unfitness unfitness);

// Nothing more is awaited from it before ranks may start there.
bool has_passed_gate(const State& state, const AttemptNode& node);

// One could take a node's place at once.
bool has_ready_spare(Turn& turn, const Job& job, const Attempt& attempt);

std::vector<NodeId> ready_spares(Turn& turn, const Job& job, const Attempt& attempt);

// As many spares more as it wants and there are free nodes for.
void add_spares(Turn& turn, const Job& job, const Attempt& attempt, std::size_t wanted);

// Nodes that this attempt has not found unfit already.
std::vector<Candidate> new_candidates(Turn& turn, const Job& job, const Attempt& attempt);

}  // namespace muster
