// Errors that the memory controllers corrected or could not: counts since the start, so two samples
// say what happened between them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"
#include "scheduler/text/clock.h"

namespace muster {

struct EdacCounts {
  std::optional<std::int64_t> uncorrected;  // nothing: could not be read
  std::optional<std::int64_t> corrected;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("uncorrected", self.uncorrected);
    visit("corrected", self.corrected);
  }
};

struct EdacSample {
  std::string boot_id;
  Time at{};
  std::map<std::string, EdacCounts> by_controller;  // "mc0"
  std::string error;                                // why there is none; empty: they were read

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("boot_id", self.boot_id);
    visit("at", self.at);
    visit("by_controller", self.by_controller);
    visit("error", self.error);
  }
};

EdacSample edac_sample_of(const SourceFiles& files, Time at);

// One finding for each controller; none where the kernel knows of no controller, unless the profile
// requires or names the check. `before` should be the oldest sample of the latest day:
// corrected errors count by the day. A controller of which there is no earlier sample since the
// node started, or whose counters fell, is not judged: the sample is where the next one starts
// from.
std::vector<HealthFinding> judge_edac(const EdacSample& before, const EdacSample& now,
                                      const HealthProfile& profile);

}  // namespace muster
