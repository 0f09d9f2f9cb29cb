#include "cli/job/gate_words.h"

#include <optional>

#include "cli/health/health_measure.h"
#include "health/benchmark/gate_figures.h"
#include "scheduler/state/gate_benchmark.h"

namespace muster {

namespace {

ProbePlan plan_of(const MusterSettings& settings, const ComputeTarget& target) {
  return gate_plan(target.health.value_or(HealthProfile{}),
                   {settings.health_skip, settings.health_only});
}

std::optional<std::string> why_full_adds_nothing(const MusterSettings& settings,
                                                 const ComputeTarget& target) {
  if (settings.health_start == HealthLevel::off) {
    return "the gate measures, and muster.health.start is off";
  }
  if (!plan_of(settings, target).probes.empty()) return std::nullopt;
  return "the health profile of " + target.name +
         " has no floor that a gate measures; `muster health learn --measure` writes floors";
}

Finding about(const JobFile& job, Severity severity, const std::string& key,
              const std::string& what) {
  return finding_about(job, severity, key, key + ": " + what);
}

}  // namespace

std::vector<Finding> gate_findings(const JobFile& job, const ComputeTarget& target) {
  const MusterSettings& settings = job.spec.muster;
  const bool at_start = settings.health_start == HealthLevel::full;
  if (!at_start && failure_level(settings) != HealthLevel::full) return {};
  if (const auto why = why_full_adds_nothing(settings, target)) {
    const char* key = at_start ? "muster.health.start" : "muster.health.failure";
    return {about(job, Severity::warning, key, "full adds nothing to quick: " + *why)};
  }
  if (!at_start) return {};
  return {about(job, Severity::note, "muster.health.start",
                "before ranks start each node is measured, unless it was in the last " +
                    std::to_string(figures_keep.count()) +
                    " h: " + cost_text(plan_of(settings, target)))};
}

std::string measured_after_failure(const JobSpec& spec, const ComputeTarget& target) {
  const MusterSettings& settings = spec.muster;
  const bool is_wanted = failure_level(settings) == HealthLevel::full;
  if (!is_wanted || why_full_adds_nothing(settings, target)) return {};
  return "after an attempt that failed its nodes are measured before the next: " +
         cost_text(plan_of(settings, target));
}

}  // namespace muster
