#include "health/benchmark/samples.h"

#include <algorithm>
#include <set>
#include <utility>

#include "health/benchmark/tools/tools.h"
#include "health/model/check.h"
#include "health/model/majority.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t line_max = 1024;
constexpr std::size_t device_max = 64;

bool is_device_name(std::string_view name) {
  return name.size() <= device_max && is_word_of(name, "_-.:");
}

std::string_view take_word(std::string_view& line) {
  return take_until(line, ' ');
}

// "2 fail Memory: …", "1 warn …"
bool read_faults(std::string_view text, PerformanceSample& sample) {
  sample.value = read_number(take_word(text));
  const std::string_view kind = take_word(text);
  sample.is_slight = kind == "warn";
  sample.note = probe_text(text);
  return sample.value && *sample.value > 0 && (kind == "fail" || kind == "warn") &&
         !sample.note.empty();
}

std::optional<PerformanceSample> read_line(std::string_view line) {
  if (line.size() > line_max) return std::nullopt;
  PerformanceSample sample;
  const std::string_view name = take_word(line);
  const std::string_view device = take_word(line);
  const PerformanceMetric* metric = find_performance_metric(name);
  if (metric == nullptr || !is_device_name(device)) return std::nullopt;
  sample.metric = name;
  if (device != probe_node_device) sample.device = device;
  const bool is_number = line.find(' ') == std::string_view::npos;
  sample.value = read_number(line);
  // Faults have a name.
  if (metric->counts_faults && sample.value.value_or(0) > 0) return std::nullopt;
  if (sample.value) return sample;
  const bool begins_with_number = !line.empty() && line.front() >= '0' && line.front() <= '9';
  if (metric->counts_faults && !is_number && begins_with_number)
    return read_faults(line, sample) ? std::optional(sample) : std::nullopt;
  const std::string_view kind = take_word(line);
  sample.is_absent = kind == "absent";
  sample.error = probe_text(line);
  const bool is_reported = (kind == "error" || kind == "absent") && !sample.error.empty();
  return is_reported ? std::optional(sample) : std::nullopt;
}

// "waited_pct - 12.5"
std::optional<double> read_waited(std::string_view line) {
  if (take_word(line) != probe_waited_word || take_word(line) != probe_node_device)
    return std::nullopt;
  return read_number(line);
}

// Of the node's devices.
std::map<std::string, double> medians_of(const std::vector<PerformanceSample>& samples) {
  std::map<std::string, std::vector<double>> values;
  for (const PerformanceSample& sample : samples) {
    if (sample.value) values[sample.metric].push_back(*sample.value);
  }
  std::map<std::string, double> medians;
  for (auto& [metric, all] : values) {
    if (const auto median = median_of(std::move(all))) medians.emplace(metric, *median);
  }
  return medians;
}

bool tells_of(const std::vector<PerformanceSample>& samples, const std::string& metric) {
  return std::ranges::find(samples, metric, &PerformanceSample::metric) != samples.end();
}

// Not even an error: its probe was never run there, or what it said was cut off.
std::vector<PerformanceSample> untold(const std::vector<PerformanceSample>& samples,
                                      const std::map<std::string, FleetFigure>& fleet) {
  std::vector<PerformanceSample> missing;
  for (const auto& [metric, figure] : fleet) {
    if (!tells_of(samples, metric))
      missing.push_back({metric, "", std::nullopt, "the node said nothing of it"});
  }
  return missing;
}

}  // namespace

ProbeOutput read_probe_output(std::string_view text) {
  ProbeOutput output;
  std::set<std::pair<std::string, std::string>> seen;
  const auto refuse = [&](std::string_view line) {
    if (output.refused++ == 0) output.first_refused = probe_text(line);
  };
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const auto waited = end == std::string_view::npos ? std::nullopt : read_waited(line);
    if (waited) {
      output.waited_pct = std::max(output.waited_pct, *waited);
      continue;
    }
    auto sample = end == std::string_view::npos ? std::nullopt : read_line(line);
    const bool is_taken = sample && output.samples.size() < probe_samples_max &&
                          seen.emplace(sample->metric, sample->device).second;
    if (is_taken) {
      output.samples.push_back(std::move(*sample));
    } else {
      refuse(line);
    }
  }
  return output;
}

void add_missing_samples(ProbeOutput& output, std::span<const std::string> metrics,
                         const std::string& why) {
  for (const std::string& metric : metrics) {
    if (!tells_of(output.samples, metric))
      output.samples.push_back({metric, "", std::nullopt, why});
  }
}

std::optional<HealthFinding> judge_sample(const HealthProfile& profile,
                                          const PerformanceSample& sample,
                                          const std::map<std::string, FleetFigure>& fleet) {
  const PerformanceMetric* metric = find_performance_metric(sample.metric);
  if (metric == nullptr || is_off(profile, metric->check, sample.device)) return std::nullopt;
  const auto known = fleet.find(sample.metric);
  return judge_performance(profile, sample, known == fleet.end() ? FleetFigure{} : known->second);
}

std::vector<HealthFinding> judge_samples(const HealthProfile& profile,
                                         std::span<const PerformanceSample> samples,
                                         const std::map<std::string, FleetFigure>& fleet) {
  std::vector<HealthFinding> findings;
  for (const PerformanceSample& sample : samples) {
    auto finding = judge_sample(profile, sample, fleet);
    if (finding) findings.push_back(std::move(*finding));
  }
  return findings;
}

std::map<std::string, double> worst_values(std::span<const PerformanceSample> samples) {
  std::map<std::string, double> worst;
  std::set<std::string> failed;
  for (const PerformanceSample& sample : samples) {
    const PerformanceMetric* metric = find_performance_metric(sample.metric);
    if (metric == nullptr || !sample.value || metric->counts_faults) {
      failed.insert(sample.metric);
      continue;
    }
    const auto [known, is_new] = worst.emplace(sample.metric, *sample.value);
    if (is_new) continue;
    known->second = metric->is_ceiling ? std::max(known->second, *sample.value)
                                       : std::min(known->second, *sample.value);
  }
  for (const std::string& metric : failed) worst.erase(metric);
  return worst;
}

std::map<std::string, FleetFigure> fleet_figures(const NodeFigures& by_node) {
  std::map<std::string, std::vector<double>> values;
  for (const auto& [node, samples] : by_node) {
    for (const auto& [metric, median] : medians_of(samples)) values[metric].push_back(median);
  }
  std::map<std::string, FleetFigure> figures;
  for (auto& [metric, all] : values) {
    const int nodes = static_cast<int>(all.size());
    if (const auto median = median_of(std::move(all))) figures[metric] = {*median, nodes};
  }
  return figures;
}

std::map<std::string, std::vector<FleetJudgement>> judge_fleet(const HealthProfile& profile,
                                                               const NodeFigures& by_node) {
  const auto fleet = fleet_figures(by_node);
  std::map<std::string, std::vector<FleetJudgement>> judged;
  for (const auto& [node, said] : by_node) {
    for (const PerformanceSample& sample : said) {
      auto finding = judge_sample(profile, sample, fleet);
      auto alone = judge_sample(profile, sample, {});
      if (finding && finding != alone) judged[node].push_back({*std::move(finding), alone});
    }
    for (const PerformanceSample& sample : untold(said, fleet)) {
      auto finding = judge_sample(profile, sample, fleet);
      if (finding) judged[node].push_back({*std::move(finding), std::nullopt});
    }
  }
  return judged;
}

}  // namespace muster
