// The reason that a node drained for a fault carries:
//   muster:<class>:<check>:<device> <finding-id>      "muster:node:ib.symbol:mlx5_3:1 6f01ab22"
// Only a reason of exactly this form is muster's own; with a word of a person in it, it is theirs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "scheduler/model/node_fault.h"

namespace muster {

// Hexadecimal, of the fault.
inline constexpr std::size_t fault_id_digits = 8;

struct DrainReason {
  FaultClass fault_class = FaultClass::node;
  std::string check;
  std::string device;
  std::string id;

  friend bool operator==(const DrainReason&, const DrainReason&) = default;
};

// Characters that would end a word of a reason are written as `_`.
DrainReason drain_reason(FaultClass fault_class, std::string_view check, std::string_view device,
                         std::string id);
std::string text_of(const DrainReason& reason);

// Nothing: a foreign reason. What Slurm adds when it shows one, ` [root@2026-03-01T10:00:00]`, is
// passed over.
std::optional<DrainReason> parse_drain_reason(std::string_view text);

}  // namespace muster
