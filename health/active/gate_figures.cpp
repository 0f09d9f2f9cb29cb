#include "health/active/gate_figures.h"

#include <algorithm>

#include "health/active/expected_plan.h"
#include "health/active/samples.h"
#include "health/profile_floor.h"
#include "health/verdict/check_rules.h"

namespace muster {

namespace {

std::vector<PerformanceSample> samples_of(std::span<const GateFigure> figures,
                                          const std::vector<std::string>& metrics) {
  std::vector<PerformanceSample> samples;
  for (const GateFigure& one : figures) {
    if (std::ranges::find(metrics, one.sample.metric) != metrics.end()) {
      samples.push_back(one.sample);
    }
  }
  return samples;
}

bool is_met(const HealthProfile& profile, std::span<const PerformanceSample> of_metric,
            const PerformanceSample& sample) {
  const auto finding = judge_sample(profile, of_metric, sample, {});
  return !finding || finding->status == CheckStatus::pass;
}

// As judge_gate_figures sees them: what is slow beside the node's other devices is bad, too.
bool is_young(const HealthProfile& profile, std::span<const PerformanceSample> of_metric,
              const GateFigure& figure, std::chrono::milliseconds now) {
  if (figure.at > now) return false;
  const std::chrono::milliseconds age = now - figure.at;
  return age < (is_met(profile, of_metric, figure.sample)
                    ? std::chrono::milliseconds(figures_keep)
                    : std::chrono::milliseconds(bad_figures_keep));
}

// All that is known of it is young, or it could not be had a short time ago.
bool is_known(const HealthProfile& profile, const std::string& metric,
              std::span<const GateFigure> known, std::chrono::milliseconds now) {
  const std::vector<PerformanceSample> of_metric = samples_of(known, {metric});
  bool any = false;
  bool was_missed = false;
  bool is_each_young = true;
  for (const GateFigure& figure : known) {
    if (figure.sample.metric != metric) continue;
    any = true;
    const bool young = is_young(profile, of_metric, figure, now);
    if (young && !figure.sample.value) was_missed = true;
    if (!young) is_each_young = false;
  }
  return was_missed || (any && is_each_young);
}

// "cpu_gemm_gflops 12 GFLOP/s, expected >= 300 GFLOP/s, floor of the profile"
std::string sentence_of(const HealthFinding& finding) {
  const std::string where = finding.device.empty() ? "" : " on " + finding.device;
  const std::string said = finding.evidence.empty() ? "" : finding.evidence.front();
  if (finding.status == CheckStatus::unknown) return "cannot be told" + where + ": " + said;
  const std::size_t end = said.find(", ");
  const std::string metric = said.substr(0, end);
  const std::string from = end == std::string::npos ? "" : said.substr(end);
  return metric + where + " " + finding.value + " " + finding.unit + ", expected " +
         finding.expected + " " + finding.unit + from;
}

bool keeps_away(const HealthProfile& profile, const HealthFinding& finding) {
  if (finding.status == CheckStatus::unknown) return is_required(profile, finding.check);
  const auto mode = setting_of(profile, finding.check).mode;
  return finding.status == CheckStatus::fail &&
         mode.value_or(CheckMode::enforce) == CheckMode::enforce;
}

}  // namespace

ProbePlan gate_plan(const HealthProfile& profile, const CheckChoice& choice) {
  ProbePlan plan = expected_plan(profile, {});
  for (PlannedProbe& probe : plan.probes) {
    std::erase_if(probe.metrics, [&](const std::string& name) {
      const PerformanceMetric* metric = find_performance_metric(name);
      return metric->counts_faults || !choice.has(metric->check);
    });
  }
  std::erase_if(plan.probes, [](const PlannedProbe& one) { return one.metrics.empty(); });
  plan.impossible.clear();
  return plan;
}

std::vector<std::string> probes_due(const HealthProfile& profile, const ProbePlan& plan,
                                    std::span<const GateFigure> known,
                                    std::chrono::milliseconds now) {
  std::vector<std::string> due;
  for (const PlannedProbe& probe : plan.probes) {
    const bool is_done = std::ranges::all_of(probe.metrics, [&](const std::string& metric) {
      return is_known(profile, metric, known, now);
    });
    if (!is_done) due.emplace_back(probe.spec->name);
  }
  return due;
}

std::vector<CheckFailure> judge_gate_figures(const HealthProfile& profile, const ProbePlan& plan,
                                             std::span<const GateFigure> figures) {
  std::vector<CheckFailure> failures;
  for (const PlannedProbe& probe : plan.probes) {
    ProbeOutput said;
    said.samples = samples_of(figures, probe.metrics);
    add_missing_samples(said, probe.metrics, "nothing was said of it");
    for (const HealthFinding& finding : judge_samples(profile, said.samples, {})) {
      if (keeps_away(profile, finding)) failures.push_back({finding.check, sentence_of(finding)});
    }
  }
  return failures;
}

}  // namespace muster
