// The name of a fault, by what a check found, and the reason of a drain for it.
#pragma once

#include <string>

#include "health/model/finding.h"
#include "scheduler/model/node_fault.h"

namespace muster {

// What tells faults of one check apart: the number of an XID or SXid; empty for other checks.
std::string cause_code(const HealthFinding& finding);

// 8 hexadecimal digits of check, device, serial and cause: the same for the same fault, on any
// machine, at any time.
std::string finding_id(const HealthFinding& finding);

DrainReason reason_of(const HealthFinding& finding, std::string id);

}  // namespace muster
