// Whether a job that fails again and again fails by itself: nodes that have nothing in common do
// not all break the same day. Pure.
#pragma once

#include <span>
#include <vector>

#include "scheduler/model/ids.h"

namespace muster {

struct FailedAttempt {
  std::vector<NodeId> nodes;
  bool has_node_fault = false;  // a fault of class node was believed on one of them: explained
};

// It failed on two sets of nodes that share none, and no node explains either failure.
bool fails_by_itself(std::span<const FailedAttempt> attempts);

}  // namespace muster
