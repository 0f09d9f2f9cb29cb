// What the kernel says of itself: its taint, its clock, how often it started.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

std::optional<HealthFinding> judge_taint(const SourceFiles& files, const HealthProfile& profile);

// `offset`: how far the node's clock is from the controller's, where that was measured.
std::optional<HealthFinding> judge_clock(const SourceFiles& files, const HealthProfile& profile,
                                         std::optional<Milliseconds> offset);

struct BootSeen {
  std::string boot_id;
  Time first_seen{};

  MUSTER_FIELDS(boot_id, first_seen)
};

// `history` in the order of time. The first boot that was ever seen is no reboot.
std::optional<HealthFinding> judge_reboots(std::span<const BootSeen> history, Time now,
                                           const HealthProfile& profile);

}  // namespace muster
