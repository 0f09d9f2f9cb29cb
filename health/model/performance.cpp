#include "health/model/performance.h"

#include <algorithm>
#include <cmath>

#include "health/model/check.h"
#include "scheduler/model/result.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

struct Bound {
  double value;
  std::string from;  // "minimum of the profile"
  CheckSeverity severity;
};

// How bad a figure is that does not keep one of its bounds.
class Bounds {
 public:
  Bounds(const HealthProfile& profile, const PerformanceMetric& metric,
         const PerformancePeers& peers)
      : metric_(metric), usual_(find_check(metric.check)->severity) {
    const auto floor = profile.floors.find(std::string(metric.name));
    if (floor != profile.floors.end()) {
      const char* from = metric.is_ceiling ? "limit of the profile" : "minimum of the profile";
      all_.push_back({floor->second, from, usual_});
    }
    const bool is_fleet = peers.fleet_nodes >= fleet_min_nodes;
    if (peers.fleet_median && is_fleet) {
      all_.push_back(share_of_fleet(*peers.fleet_median, metric.fleet_pct));
    }
  }

  bool empty() const { return all_.empty(); }

  // The one that is hardest to meet.
  const Bound& strictest() const {
    return *std::ranges::max_element(
        all_, [this](const Bound& a, const Bound& b) { return is_stricter(b, a); });
  }

  // The one that says what becomes of the value: a rule may warn where the next one drains.
  const Bound& decisive(double value) const {
    const Bound* worst = &strictest();
    for (const Bound& bound : all_) {
      const bool is_worse = bound.severity.remedy > worst->severity.remedy;
      if (is_worse && !meets(value, bound)) worst = &bound;
    }
    return meets(value, strictest()) ? strictest() : *worst;
  }

  bool meets(double value, const Bound& bound) const {
    return metric_.is_ceiling ? value <= bound.value : value >= bound.value;
  }

 private:
  bool is_stricter(const Bound& a, const Bound& b) const {
    return metric_.is_ceiling ? a.value < b.value : a.value > b.value;
  }

  Bound share_of_fleet(double median, double pct) {
    const double factor = metric_.is_ceiling ? 1 + pct / 100 : 1 - pct / 100;
    return {median * factor,
            "fleet median " + number_text(median) + (metric_.is_ceiling ? " +" : " -") +
                number_text(pct) + " %",
            usual_};
  }

  const PerformanceMetric& metric_;
  CheckSeverity usual_;
  std::vector<Bound> all_;
};

HealthFinding judge_count(const PerformanceMetric& metric, const PerformanceSample& sample) {
  HealthFinding finding =
      make_finding(*find_check(metric.check), sample.device, CheckStatus::unknown);
  finding.unit = metric.unit;
  finding.expected = "0";
  if (!sample.value || !std::isfinite(*sample.value)) {
    finding.evidence = {sample.metric + ": " + (sample.error.empty() ? "no number" : sample.error)};
    if (sample.is_absent) finding.fault_class = FaultClass::setup;
    return finding;
  }
  finding.status = *sample.value == 0 ? CheckStatus::pass : CheckStatus::fail;
  if (sample.is_slight) finding.severity = {Remedy::warn, {}};
  finding.value = number_text(*sample.value);
  finding.evidence = {sample.metric + (sample.note.empty() ? "" : ": " + sample.note)};
  return finding;
}

}  // namespace

std::optional<HealthFinding> judge_performance(const HealthProfile& profile,
                                               const PerformanceSample& sample,
                                               const PerformancePeers& peers) {
  const PerformanceMetric* metric = find_performance_metric(sample.metric);
  check(metric != nullptr, "a performance sample of an unknown metric");
  if (metric->counts_faults) return judge_count(*metric, sample);
  const Bounds bounds(profile, *metric, peers);
  if (bounds.empty()) return std::nullopt;
  HealthFinding finding =
      make_finding(*find_check(metric->check), sample.device, CheckStatus::unknown);
  finding.unit = metric->unit;
  const bool has_number = sample.value && std::isfinite(*sample.value);
  const Bound& bound = has_number ? bounds.decisive(*sample.value) : bounds.strictest();
  finding.expected = (metric->is_ceiling ? "<= " : ">= ") + number_text(bound.value);
  if (!has_number) {
    finding.evidence = {sample.metric + ": " + (sample.error.empty() ? "no number" : sample.error)};
    if (sample.is_absent) finding.fault_class = FaultClass::setup;
    return finding;
  }
  const bool is_met = bounds.meets(*sample.value, bound);
  finding.status = is_met ? CheckStatus::pass : CheckStatus::fail;
  if (!is_met) finding.severity = bound.severity;
  finding.value = number_text(*sample.value);
  finding.evidence = {sample.metric + ", " + bound.from};
  return finding;
}

}  // namespace muster
