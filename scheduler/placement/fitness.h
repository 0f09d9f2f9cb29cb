// Whether a node that a job holds is fit to run it: connected, allowed, and past its start gate.
#pragma once

#include <optional>
#include <string>

#include "scheduler/state/turn.h"

namespace muster {

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

}  // namespace muster
