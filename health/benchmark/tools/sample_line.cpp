#include "health/benchmark/tools/tools.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

void print_line(std::string_view metric, std::string_view device, const std::string& rest) {
  std::string line(metric);
  line.append(" ").append(device.empty() ? probe_node_device : device).append(" ");
  line.append(rest).append("\n");
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

std::string faults_text(const PerformanceSample& sample) {
  constexpr double most = std::numeric_limits<int>::max();
  std::string count = std::to_string(static_cast<int>(std::min(*sample.value, most)));
  if (*sample.value == 0) return count;
  return count + (sample.is_slight ? " warn " : " fail ") + probe_text(sample.note);
}

}  // namespace

std::string probe_text(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, probe_text_max)) line += c >= ' ' && c <= '~' ? c : ' ';
  return line;
}

std::string last_tool_line(std::string_view text) {
  text = text.substr(0, text.find_last_not_of("\n\r ") + 1);  // npos + 1 is 0
  return probe_text(text.substr(text.rfind('\n') + 1));
}

void print_sample(const PerformanceSample& sample) {
  if (!sample.value) {
    const char* kind = sample.is_absent ? "absent " : "error ";
    return print_line(sample.metric, sample.device, kind + probe_text(sample.error));
  }
  const PerformanceMetric* metric = find_performance_metric(sample.metric);
  const bool counts_faults = metric != nullptr && metric->counts_faults;
  print_line(sample.metric, sample.device,
             counts_faults ? faults_text(sample) : number_text(*sample.value));
}

void print_samples(std::span<const PerformanceSample> samples) {
  for (const PerformanceSample& sample : samples) print_sample(sample);
}

void print_waited(double percent) {
  print_line(probe_waited_word, "", number_text(percent));
}

PerformanceSample number_of(std::string_view metric, double value, std::string device) {
  return {std::string(metric), std::move(device), value, ""};
}

PerformanceSample number_of(std::string_view metric, const Result<double>& value) {
  return value ? number_of(metric, *value) : no_number(metric, value.error().message);
}

PerformanceSample no_number(std::string_view metric, const std::string& why) {
  return {std::string(metric), "", std::nullopt, probe_text(why)};
}

PerformanceSample no_number(std::string_view metric, const BenchmarkTool& tool,
                            const ToolRun& run) {
  const std::string program = tool.program;
  PerformanceSample sample = no_number(
      metric, run.is_found ? why_no_number(tool, run)
                           : program + " is not installed (package " + tool.package + ")");
  sample.is_absent = !run.is_found;
  return sample;
}

std::vector<PerformanceSample> no_numbers(std::span<const std::string_view> metrics,
                                          const std::string& why) {
  std::vector<PerformanceSample> samples;
  for (const std::string_view metric : metrics) samples.push_back(no_number(metric, why));
  return samples;
}

std::vector<PerformanceSample> no_numbers(std::span<const std::string_view> metrics,
                                          const BenchmarkTool& tool, const ToolRun& run) {
  std::vector<PerformanceSample> samples;
  for (const std::string_view metric : metrics) samples.push_back(no_number(metric, tool, run));
  return samples;
}

std::string why_no_number(const BenchmarkTool& tool, const ToolRun& run) {
  std::string said = last_tool_line(run.errors);
  if (said.empty() && run.exit_code) said = last_tool_line(run.output);
  const std::string ended =
      run.exit_code ? "ended with " + std::to_string(*run.exit_code) : "did not end in time";
  return std::string(tool.program) + " " + ended + (said.empty() ? "" : ": " + said);
}

}  // namespace muster
