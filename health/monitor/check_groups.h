// Which sources a check is judged from, how often they are read, and when a check runs at all. Data
// and pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/check.h"
#include "health/model/profile.h"

namespace muster {

using SourceGroups = std::uint8_t;
inline constexpr SourceGroups all_source_groups = 31;
inline constexpr SourceGroup every_source_group[] = {
    SourceGroup::infiniband_state, SourceGroup::infiniband_counters, SourceGroup::gpu,
    SourceGroup::host, SourceGroup::processes};

constexpr bool has(SourceGroups groups, SourceGroup group) {
  return (groups & static_cast<SourceGroups>(group)) != 0;
}
constexpr SourceGroups with(SourceGroups groups, SourceGroup group) {
  return static_cast<SourceGroups>(groups | static_cast<SourceGroups>(group));
}

// How long after a read the next one is due. Without ranks nothing is lost by a later look, but the
// next job wants an answer that is less than a minute old.
std::chrono::milliseconds period_of(SourceGroup group, bool is_idle);

// Of a check that is none, too: not judged from the node's own sources.
SourceGroups group_of(std::string_view check);

// A person who asks, and a qualification, get all checks.
bool runs_in(const CheckSpec& check, Phase phase);
// Whether a check of the phase is judged from the group, and is on in the profile.
bool has_checks(const HealthProfile& profile, SourceGroup group, Phase phase);
// Whether the profile has its check judged at all: of one that is skipped nothing is said any more,
// and a fault that it once found would stand for ever. What just cannot be read is asked for.
bool is_asked_for(const HealthProfile& profile, const HealthFinding& fault);
// Beside what ranks must not be held up by, everything is read: before and between jobs.
bool reads_all(Phase phase);

// Of the first read; what may hang comes last.
std::vector<std::string> sources_of(const HealthProfile& profile, SourceGroups groups, Phase phase);

}  // namespace muster
