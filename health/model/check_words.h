// The words that rows of checks are written in: what a failure leads to, whose fault it is, how
// often it must be seen, when it runs. Only for tables of rows, each in a function of its own:
// words so short would hide or meet names elsewhere.
#pragma once

#include <algorithm>

#include "health/model/check.h"

namespace muster::check_words {

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
inline constexpr CheckSeverity reboot_then_rma{Remedy::reboot, Remedy::rma, false};
inline constexpr CheckSeverity stop_reboot{Remedy::reboot, {}, true};
inline constexpr CheckSeverity stop_reboot_then_rma{Remedy::reboot, Remedy::rma, true};
inline constexpr CheckSeverity rma{Remedy::rma, {}, false};

using enum FaultClass;
using enum Persistence;
using enum SourceGroup;
using namespace std::chrono_literals;

// Qualification runs every row.
constexpr Phases when(std::string_view letters) {
  auto phases = static_cast<Phases>(Phase::qualification);
  for (const char letter : letters) {
    if (letter == 'P') phases = phases | Phase::prolog;
    if (letter == 'T') phases = phases | Phase::periodic;
    if (letter == 'E') phases = phases | Phase::epilog;
    if (letter == 'F') phases = phases | Phase::on_failure;
    if (letter == 'D') phases = phases | Phase::on_demand;
  }
  return phases;
}

// The driver, the firmware or the kernel says itself that the hardware failed: no threshold of ours
// or of a kind of machine is in between, so no profile is needed to believe it.
inline bool said_by_hardware(const HealthProfile&) {
  return true;
}

// The check is asked for where this part of the profile has one of the keys …
template <auto part, auto... keys>
bool is_set(const HealthProfile& profile, const HealthFinding&) {
  return ((profile.*part.*keys).has_value() || ...);
}
// … or where this list of its host names the device.
template <auto list>
bool is_listed(const HealthProfile& profile, const HealthFinding& finding) {
  return std::ranges::find(profile.host.*list, finding.device) != (profile.host.*list).end();
}

}  // namespace muster::check_words
