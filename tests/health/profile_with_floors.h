// A health profile with nothing but floors of measured figures.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "health/model/profile.h"

namespace muster {

inline HealthProfile with_floors(std::map<std::string, double> floors) {
  HealthProfile profile;
  profile.floors = std::move(floors);
  return profile;
}

}  // namespace muster
