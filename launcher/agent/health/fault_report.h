// What a node's health checks believe, as the controller is told it: one fault of each thing that
// stands, with a sentence for people. Pure.
#pragma once

#include <vector>

#include "health/verdict/node_verdict.h"
#include "scheduler/model/node_fault.h"

namespace muster {

// Of all that stand, worst first; those that only would have drained are not enforced.
std::vector<NodeFault> faults_of(const NodeVerdict& verdict);

// "XID 79 on gpu3: fell off the bus", "ib.rate on mlx5_3:1: 200 Gb/s, expected >= 400"
std::string sentence_of(const HealthFinding& finding);

// What was computed or stored there since the fault may be wrong: errors of memory that were not
// contained. A GPU that is gone, or a link that is down, stops ranks but does not mislead them.
bool casts_doubt(const HealthFinding& finding);

}  // namespace muster
