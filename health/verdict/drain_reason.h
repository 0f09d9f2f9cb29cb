// The name of a fault, and the reason that a node drained for it carries:
//   muster:<class>:<check>:<device> <finding-id>      "muster:node:ib.symbol:mlx5_3:1 6f01ab22"
// Only a reason of exactly this form is muster's own; with a word of a person in it, it is theirs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "health/finding.h"

namespace muster {

// What tells faults of one check apart: the number of an XID or SXid; empty for other checks.
std::string cause_code(const HealthFinding& finding);

// 8 hexadecimal digits of check, device, serial and cause: the same for the same fault, on any
// machine, at any time.
std::string finding_id(const HealthFinding& finding);

struct DrainReason {
  FaultClass fault_class = FaultClass::node;
  std::string check;
  std::string device;
  std::string id;

  friend bool operator==(const DrainReason&, const DrainReason&) = default;
};

// Characters that would end a word of a reason are written as `_`.
DrainReason reason_of(const HealthFinding& finding, std::string id);
std::string text_of(const DrainReason& reason);

// Nothing: a foreign reason. What Slurm adds when it shows one, ` [root@2026-03-01T10:00:00]`, is
// passed over.
std::optional<DrainReason> parse_drain_reason(std::string_view text);

}  // namespace muster
