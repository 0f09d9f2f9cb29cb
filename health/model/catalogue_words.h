// The words that the tables of checks are written in: what a failure leads to, whose fault it is,
// and how often it must be seen. Only for the files of the catalogue, each of which keeps its table
// in a namespace of its own, as words so short would hide or meet names elsewhere.
#pragma once

#include "health/model/check.h"

namespace muster::catalogue_words {

inline constexpr CheckSeverity warn = only_warn;
inline constexpr CheckSeverity warn_then_drain{Remedy::warn, Remedy::drain, false};
inline constexpr CheckSeverity drain{Remedy::drain, {}, false};
inline constexpr CheckSeverity drain_then_reboot{Remedy::drain, Remedy::reboot, false};
inline constexpr CheckSeverity drain_then_rma{Remedy::drain, Remedy::rma, false};
inline constexpr CheckSeverity stop_drain{Remedy::drain, {}, true};
inline constexpr CheckSeverity reset{Remedy::reset, {}, false};
inline constexpr CheckSeverity reset_then_reboot{Remedy::reset, Remedy::reboot, false};
inline constexpr CheckSeverity reset_then_rma{Remedy::reset, Remedy::rma, false};
inline constexpr CheckSeverity stop_reset{Remedy::reset, {}, true};
inline constexpr CheckSeverity stop_reset_then_rma{Remedy::reset, Remedy::rma, true};
inline constexpr CheckSeverity reboot{Remedy::reboot, {}, false};
inline constexpr CheckSeverity stop_reboot{Remedy::reboot, {}, true};
inline constexpr CheckSeverity stop_reboot_then_rma{Remedy::reboot, Remedy::rma, true};
inline constexpr CheckSeverity rma{Remedy::rma, {}, false};

inline constexpr FaultClass node = FaultClass::node;
inline constexpr FaultClass setup = FaultClass::setup;
inline constexpr FaultClass user = FaultClass::user;
inline constexpr FaultClass infra = FaultClass::infra;

inline constexpr Persistence event = Persistence::event;
inline constexpr Persistence delta = Persistence::delta;
inline constexpr Persistence samples = Persistence::samples;

inline constexpr bool often_shared = true;

}  // namespace muster::catalogue_words
