// The circuit breaker of health checks: one that would drain too many nodes of a target within its
// window has found one fault of storage, network or power. It then drains none until a person arms
// it again. How many are too many says the target's health profile. Pure.
#pragma once

#include <optional>

#include "scheduler/turn.h"

namespace muster {

// Whether the fault calls for a drain of the node at all, breakers apart.
bool calls_for_drain(const Node& node, const NodeFault& fault);

// The check's breaker is open, or what it found then was found before a person armed it again.
bool is_withheld(const Turn& turn, const NodeFault& fault);

// A fault with a cause that nodes share is acted on when all of them have had time to tell of it,
// unless a job cannot go on with it.
bool has_settled(Turn& turn, const Node& node, const NodeFault& fault);

// To be decided instead of the node's drain; nothing: it may be drained.
std::optional<BreakerOpened> breaker_against(const Turn& turn, const Node& node,
                                             const NodeFault& fault);

}  // namespace muster
