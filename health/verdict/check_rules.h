// How seriously a check is taken on a device: its setting in the profile, or the usual one. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "health/model/check.h"
#include "health/model/profile.h"
#include "scheduler/text/clock.h"

namespace muster {

// Bad ones in a row before a state is believed: one poll at boot flags healthy nodes. As many
// passes before a fault is over, and as many unknowns of a required check before they drain.
inline constexpr int usual_samples = 3;
inline constexpr Seconds fast_sampling{1};
// Links train for minutes after a boot.
inline constexpr Seconds link_settling{300};
// A counter that only warns drains when it grew in so many of so many reads (NVRx).
inline constexpr int often_windows = 15;
inline constexpr int often_of_windows = 30;
// An event's next poll passes already, whatever broke.
inline constexpr Seconds clear_after_event{600};
// When what it called for has been done.
inline constexpr Seconds clear_after_remedy{60};

struct CheckRules {
  const HealthProfile& profile;
  // Of a check: the catalogue's, samples when it is not in there.
  Persistence (*persistence_of)(std::string_view check);
  // Of a check that the profile neither sets nor requires; nothing: usual_mode().
  std::optional<CheckMode> unnamed;
};

Persistence catalogue_persistence(std::string_view check);
CheckRules rules_of(const HealthProfile& profile);

// Off too where the profile leaves the device out, itself ("mlx5_an0") or with its ports.
CheckMode mode_of(const CheckRules& rules, std::string_view check, std::string_view device);
int bad_samples_needed(const CheckRules& rules, std::string_view check);
int passes_needed(const CheckRules& rules, std::string_view check);
// Since the last bad sample, before a fault is over; `clear_after_s` of the profile.
Seconds clean_time_needed(const CheckRules& rules, std::string_view check);
// The same when what the fault called for has been done.
Seconds clean_time_after_remedy(const CheckRules& rules, std::string_view check);

}  // namespace muster
