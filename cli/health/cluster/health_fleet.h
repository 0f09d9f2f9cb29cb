// What only nodes together show: versions that one of them has alone, values that a rule of the
// profile compares; added to what each of them said. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/health/result.h"
#include "health/model/profile.h"
#include "scheduler/model/clock.h"

namespace muster {

// Nodes of one target and profile are compared. What is serious and enforced makes a node unclear:
// it was looked at once, and it is not for this to drain.
using ProfileOf = std::function<HealthProfile(const NodeAnswer&)>;
void compare_nodes(std::vector<NodeAnswer>& answers, const std::vector<std::string>& checks,
                   const ProfileOf& profile_of, Time now);

// The same by the profile's rules `all_equal` and `majority`. What a node says itself of the same
// check stays when it is worse.
void compare_by_rules(std::vector<NodeAnswer>& answers, const std::vector<std::string>& checks,
                      const ProfileOf& profile_of, Time now);

}  // namespace muster
