// How seriously a check is taken that a profile neither sets nor requires. Pure.
#pragma once

#include <string_view>

#include "health/model/profile.h"

namespace muster {

CheckMode usual_mode(const HealthProfile& profile, std::string_view check);

}  // namespace muster
