// Errors that the memory controllers corrected or could not: counts since the start, so two samples
// say what happened between them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "health/model/check.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

struct EdacCounts {
  std::optional<std::int64_t> uncorrected;  // nothing: could not be read
  std::optional<std::int64_t> corrected;

  MUSTER_FIELDS(uncorrected, corrected)
};

struct EdacSample {
  std::string boot_id;
  Time at{};
  std::map<std::string, EdacCounts> by_controller;  // "mc0"
  std::string error;                                // why there is none; empty: they were read

  MUSTER_FIELDS(boot_id, at, by_controller, error)
};

EdacSample edac_sample_of(const SourceFiles& files, Time at);

// One finding for each controller; none where the kernel knows of no controller, unless the profile
// requires or names the check. `before` should be the oldest sample of the latest day:
// corrected errors count by the day. A controller of which there is no earlier sample since the
// node started, or whose counters fell, is not judged: the sample is where the next one starts
// from.
std::vector<HealthFinding> judge_edac(const EdacSample& before, const EdacSample& now,
                                      const CheckInput& input);

}  // namespace muster
