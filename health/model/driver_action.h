// What the driver wants done to a GPU: NVML's field 230, and Xid 154 of the kernel's log. Data.
#pragma once

#include <algorithm>
#include <iterator>

#include "health/model/finding.h"

namespace muster {

// Numbers are those of the field.
enum class DriverAction {
  none = 0,
  gpu_reset = 1,
  node_reboot = 2,
  drain_p2p = 3,
  drain_and_reset = 4,
  restart_imex = 5,
  bus_reset = 6,
  system_reboot = 7,
  other = 255
};

struct DriverActionRow {
  DriverAction action;
  const char* log_words;  // as the log and events tell it
  const char* words;      // as the field is told
  CheckSeverity severity;
  FaultClass fault_class = FaultClass::node;
};
// Of `none` there is no row; the last one is of all that is not known.
inline constexpr DriverActionRow driver_actions[] = {
    {DriverAction::gpu_reset, "GPU reset", "GPU reset", {Remedy::reset, {}, true}},
    {DriverAction::node_reboot, "node reboot", "node reboot", {Remedy::reboot, {}, true}},
    {DriverAction::drain_p2p, "drain P2P", "drain of peers", {Remedy::drain, {}, true}},
    {DriverAction::drain_and_reset,
     "drain and reset",
     "drain and reset",
     {Remedy::reset, {}, false}},
    {DriverAction::restart_imex,
     "restart IMEX",
     "repair of the memory exchange service",
     {Remedy::drain, {}, false},
     FaultClass::setup},
    {DriverAction::bus_reset, "bus reset", "bus reset", {Remedy::reboot, {}, true}},
    {DriverAction::system_reboot, "system reboot", "system reboot", {Remedy::reboot, {}, true}},
    {DriverAction::other, "not known", "something newer", {Remedy::drain, {}, false}},
};

// Of any but `none`.
constexpr const DriverActionRow& row_of(DriverAction action) {
  const auto found = std::ranges::find(driver_actions, action, &DriverActionRow::action);
  return found == std::end(driver_actions) ? *std::prev(found) : *found;
}

// What is wanted is a reset of the GPU: on the same boot nothing else ends the wish.
constexpr bool wants_reset(DriverAction action) {
  return action == DriverAction::gpu_reset || action == DriverAction::drain_and_reset ||
         action == DriverAction::bus_reset;
}

}  // namespace muster
