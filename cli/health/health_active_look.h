// What the figures of a host's probes make of it: findings, a verdict with what is remembered, and
// the result in every form. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/health/health_report.h"
#include "cli/health/state.h"
#include "health/benchmark/run.h"
#include "health/model/profile.h"
#include "health/monitor/check_run.h"

namespace muster {

struct ActiveLook {
  HealthLook look;
  std::vector<PerformanceSample> figures;  // all that was measured, floor or none
};

struct ActiveMoment {
  RunFacts run;
  CheckMoment at;
  Milliseconds took{0};
};

// `state` is what is remembered of the host, and is changed.
ActiveLook judge_figures(const ProbeFigures& figures, const HealthProfile& profile,
                         const ActiveMoment& moment, HealthState& state);

std::string active_text(const ActiveLook& look, const HealthTextForm& form);
// As health_document, with `figures`: [{metric, device, value, unit, error}].
Document active_document(const ActiveLook& look);

}  // namespace muster
