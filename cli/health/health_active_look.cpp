#include "cli/health/health_active_look.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/terminal/escape.h"
#include "cli/terminal/table.h"
#include "health/model/profile_floor.h"
#include "health/output/finding_report.h"

namespace muster {

namespace {

bool is_measured(const std::string& check) {
  return check.starts_with("perf.");
}

// Other checks have their own runs.
NodeVerdict of_measurements(NodeVerdict verdict) {
  for (auto* faults : {&verdict.drains, &verdict.would_drain, &verdict.warnings}) {
    std::erase_if(*faults,
                  [](const StandingFault& one) { return !is_measured(one.finding.check); });
  }
  const auto is_other = [](const SampleWanted& one) { return !is_measured(one.check); };
  std::erase_if(verdict.unclear, is_other);
  std::erase_if(verdict.unconfirmed, is_other);
  return verdict;
}

// A check may measure several numbers, at the same time.
double took_of(const ProbeFigures& figures, const std::string& check) {
  double took_ms = 0;
  for (const auto& [metric, ms] : figures.took_ms) {
    const PerformanceMetric* known = find_performance_metric(metric);
    if (known != nullptr && known->check == check) took_ms = std::max(took_ms, ms);
  }
  return took_ms;
}

std::string unit_of(const PerformanceSample& sample) {
  const PerformanceMetric* metric = find_performance_metric(sample.metric);
  return metric == nullptr ? "" : std::string(metric->unit);
}

std::string figures_text(const ActiveLook& look, const HealthTextForm& form) {
  Table table({"MEASURED", "DEVICE", "VALUE", "UNIT"});
  for (const PerformanceSample& one : look.figures) {
    table.add({one.metric, one.device, one.value ? plain_number(*one.value) : one.error,
               one.value ? unit_of(one) : ""});
  }
  return table.empty() ? "" : table.text(form.width, form.color) + "\n";
}

}  // namespace

ActiveLook judge_figures(const ProbeFigures& figures, const HealthProfile& profile,
                         const ActiveMoment& moment, HealthState& state) {
  const std::vector<HealthFinding> findings = judge_samples(profile, figures.samples, {});
  NodeHealth health(profile, std::move(state.health));
  health.begin(moment.run.boot_id, moment.at);
  health.take(findings, {moment.at, 0, {}});
  state.host = moment.run.host;
  state.health = health.memory();

  ActiveLook result;
  result.figures = figures.samples;
  HealthLook& look = result.look;
  look.run = moment.run;
  look.profile = profile.name;
  look.phase = "on-demand";
  look.took = moment.took;
  std::map<std::string, int> of_check;
  for (const HealthFinding& finding : findings) ++of_check[finding.check];
  for (const HealthFinding& finding : findings) {
    const double took_ms = took_of(figures, finding.check) / of_check[finding.check];
    look.reports.push_back(
        report_of(finding, took_ms, look.run, health.rules(), state.health.streaks));
  }
  look.verdict = of_measurements(health.verdict(moment.at.wall));
  return result;
}

std::string active_text(const ActiveLook& look, const HealthTextForm& form) {
  return printable(figures_text(look, form)) + health_text(look.look, form);
}

Document active_document(const ActiveLook& look) {
  Document out = health_document(look.look);
  out["figures"] = Document::array();
  for (const PerformanceSample& one : look.figures) {
    out["figures"].push_back(
        Document{{"metric", one.metric},
                 {"device", one.device},
                 {"value", one.value ? Document(*one.value) : Document(nullptr)},
                 {"unit", unit_of(one)},
                 {"error", one.value ? Document(nullptr) : Document(one.error)}});
  }
  return out;
}

}  // namespace muster
