// Looks things up in a profile.
#pragma once

#include <string_view>

#include "scheduler/model/health_profile.h"

namespace muster {

// The setting of a check, by its id or else by the longest pattern that it fits; the default where
// there is none.
CheckSetting setting_of(const HealthProfile& profile, std::string_view check);
// A device that is left out is so with its ports: `mlx5_an0` leaves out "mlx5_an0:1" too.
bool is_excluded(const HealthProfile& profile, std::string_view check, std::string_view device);
// Turned off, or left out on the device.
bool is_off(const HealthProfile& profile, std::string_view check, std::string_view device);
// Unknown counts against the node. An agent or a probe that does not answer always does.
bool is_required(const HealthProfile& profile, std::string_view check);
// A limit that the profile may set, or the usual one.
double limit_of(const HealthProfile& profile, std::string_view check, std::string_view name,
                double usual);

// How seriously a check is taken that a profile neither sets nor requires. Pure.

CheckMode usual_mode(const HealthProfile& profile, std::string_view check);

}  // namespace muster
