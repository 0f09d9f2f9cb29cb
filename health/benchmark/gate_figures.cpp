#include "health/benchmark/gate_figures.h"

#include <algorithm>

#include "health/benchmark/samples.h"

namespace muster {

namespace {

std::vector<PerformanceSample> samples_of(std::span<const GateFigure> figures,
                                          const std::vector<std::string>& metrics) {
  std::vector<PerformanceSample> samples;
  for (const GateFigure& one : figures) {
    if (std::ranges::find(metrics, one.sample.metric) != metrics.end())
      samples.push_back(one.sample);
  }
  return samples;
}

bool keeps_away(const HealthProfile& profile, const HealthFinding& finding) {
  if (finding.status == CheckStatus::unknown) return is_required(profile, finding.check);
  const auto mode = setting_of(profile, finding.check).mode;
  return finding.status == CheckStatus::fail &&
         mode.value_or(CheckMode::enforce) == CheckMode::enforce;
}

bool is_met(const HealthProfile& profile, const PerformanceSample& sample) {
  const auto finding = judge_sample(profile, sample, {});
  return !finding || finding->status == CheckStatus::pass;
}

// It would keep the job away, and was measured only once.
bool is_doubted(const HealthProfile& profile, const GateFigure& figure) {
  if (!figure.sample.value || figure.was_bad_before) return false;
  const auto finding = judge_sample(profile, figure.sample, {});
  return finding && finding->status == CheckStatus::fail && keeps_away(profile, *finding);
}

bool is_young(const HealthProfile& profile, const GateFigure& figure,
              std::chrono::milliseconds now) {
  if (figure.at > now || is_doubted(profile, figure)) return false;
  const bool is_good = is_met(profile, figure.sample);
  return now - figure.at < (is_good ? std::chrono::minutes(figures_keep) : bad_figures_keep);
}

// All that is known of it is young, or it could not be had a short time ago.
bool is_known(const HealthProfile& profile, const std::string& metric,
              std::span<const GateFigure> known, std::chrono::milliseconds now) {
  bool any = false;
  bool was_missed = false;
  bool is_each_young = true;
  for (const GateFigure& figure : known) {
    if (figure.sample.metric != metric) continue;
    any = true;
    const bool young = is_young(profile, figure, now);
    if (young && !figure.sample.value) was_missed = true;
    if (!young) is_each_young = false;
  }
  return was_missed || (any && is_each_young);
}

// "cpu_gemm_gflops 12 GFLOP/s, expected >= 300 GFLOP/s, floor of the profile"
std::string sentence_of(const HealthFinding& finding) {
  const std::string where = finding.device.empty() ? "" : " on " + finding.device;
  const std::string said = finding.evidence.empty() ? "" : finding.evidence.front();
  if (finding.status == CheckStatus::unknown) return "is unknown" + where + ": " + said;
  const std::size_t end = said.find(", ");
  const std::string metric = said.substr(0, end);
  const std::string from = end == std::string::npos ? "" : said.substr(end);
  return metric + where + " " + finding.value + " " + finding.unit + ", expected " +
         finding.expected + " " + finding.unit + from;
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

std::vector<std::string> probes_doubted(const HealthProfile& profile, const ProbePlan& plan,
                                        std::span<const GateFigure> known) {
  std::vector<std::string> doubted;
  for (const PlannedProbe& probe : plan.probes) {
    const bool is_any = std::ranges::any_of(known, [&](const GateFigure& one) {
      return std::ranges::find(probe.metrics, one.sample.metric) != probe.metrics.end() &&
             is_doubted(profile, one);
    });
    if (is_any) doubted.emplace_back(probe.spec->name);
  }
  return doubted;
}

std::vector<GateFigure> figures_taken(const HealthProfile& profile,
                                      std::span<const GateFigure> known,
                                      const std::vector<PerformanceSample>& samples,
                                      std::chrono::milliseconds now) {
  const auto was_bad = [&](const PerformanceSample& sample) {
    return std::ranges::any_of(known, [&](const GateFigure& one) {
      return one.sample.metric == sample.metric && one.sample.device == sample.device &&
             one.sample.value && one.at <= now && now - one.at < bad_figures_keep &&
             !is_met(profile, one.sample);
    });
  };
  std::vector<GateFigure> taken;
  for (const PerformanceSample& sample : samples)
    taken.push_back({sample, now, !is_met(profile, sample) && was_bad(sample)});
  return taken;
}

void give_up_doubted(std::vector<GateFigure>& figures, const HealthProfile& profile,
                     const std::string& why) {
  for (GateFigure& figure : figures) {
    if (!is_doubted(profile, figure)) continue;
    figure.sample.value.reset();
    figure.sample.error = "it was bad once, and was not measured again: " + why;
  }
}

std::vector<CheckFailure> judge_gate_figures(const HealthProfile& profile, const ProbePlan& plan,
                                             std::span<const GateFigure> known) {
  std::vector<GateFigure> figures(known.begin(), known.end());
  give_up_doubted(figures, profile, "nobody did");
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
