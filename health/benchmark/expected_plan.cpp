#include "health/benchmark/expected_plan.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace muster {

namespace {

std::optional<int> whole(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  return is_whole ? std::optional(number) : std::nullopt;
}

// Of "mlx5_[0-7]:1": 8. Nothing when that cannot be told.
std::optional<int> ports_in(std::string_view pattern) {
  if (pattern.find('*') != std::string_view::npos) return std::nullopt;
  const std::size_t open = pattern.find('[');
  if (open == std::string_view::npos) return 1;
  const std::size_t close = pattern.find(']', open);
  if (close == std::string_view::npos) return std::nullopt;
  const std::string_view range = pattern.substr(open + 1, close - open - 1);
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = whole(range.substr(0, dash));
  const auto last = whole(range.substr(dash + 1));
  const bool is_range = first && last && *first <= *last && *last - *first < 64;
  return is_range ? std::optional(*last - *first + 1) : std::nullopt;
}

int hcas_in(const HealthProfile& profile) {
  int count = 0;
  for (const std::string& pattern : profile.ib.ports) {
    count += ports_in(pattern).value_or(expected_hcas);
  }
  return count > 0 ? count : expected_hcas;
}

int gpus_in(const HealthProfile& profile) {
  if (profile.gpu.count) return *profile.gpu.count;
  return profile.match_gpu_count.value_or(expected_gpus);
}

bool is_among(std::span<const std::string> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

ProbePlan expected_plan(const HealthProfile& profile, const ExpectedMeasurement& wanted) {
  ProbeSituation situation;
  situation.phase = Phase::on_demand;
  situation.learns = wanted.all || !wanted.only.empty();
  situation.named = wanted.only;
  situation.burn = wanted.burn;
  situation.before_a_job = wanted.before_a_job;
  situation.gpus = gpus_in(profile);
  situation.disk_directory = wanted.disk_directory;
  for (int i = 0; i < hcas_in(profile); ++i) situation.hcas.push_back("mlx5_" + std::to_string(i));
  ProbePlan plan = plan_probes(profile, situation);
  if (!wanted.only.empty()) keep_only(plan, wanted.only);
  return plan;
}

std::chrono::seconds longest_time_of(const ProbePlan& plan) {
  std::chrono::seconds sum{0};
  for (const PlannedProbe& probe : plan.probes) sum += probe.killed_after;
  return sum;
}

std::vector<std::string> probe_names(const ProbePlan& plan) {
  std::vector<std::string> names;
  for (const PlannedProbe& probe : plan.probes) names.emplace_back(probe.spec->name);
  return names;
}

void keep_only(ProbePlan& plan, std::span<const std::string> names) {
  std::erase_if(plan.probes,
                [&](const PlannedProbe& one) { return !is_among(names, one.spec->name); });
  std::erase_if(plan.impossible, [&](const PerformanceSample& one) {
    return std::ranges::none_of(probe_specs(), [&](const ProbeSpec& spec) {
      return is_among(names, spec.name) &&
             std::ranges::find(spec.metrics, one.metric) != spec.metrics.end();
    });
  });
}

}  // namespace muster
