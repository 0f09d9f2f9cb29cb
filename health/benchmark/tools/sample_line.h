// The lines that a benchmark prints, one for each number, at once, so that a kill loses none of
// those before it; health/benchmark/samples.h reads them:
//
//   metric device value
//   metric device error TEXT        it could not be measured
//   metric device absent TEXT       the tool that measures it is not installed
//   metric device COUNT fail TEXT   of counted faults, unless there is none: which;
//   metric device COUNT warn TEXT   `warn` where all of them are slight
//   waited_pct - PERCENT            of its time the tool waited for a processor: no metric
//
// The node itself is the device "-".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/performance.h"
#include "health/read/tool_process.h"
#include "scheduler/model/result.h"

namespace muster {

inline constexpr std::string_view probe_node_device = "-";
inline constexpr std::string_view probe_waited_word = "waited_pct";
inline constexpr std::size_t probe_text_max = 300;

// One line of readable characters, whatever a tool said.
std::string probe_text(std::string_view text);
std::string last_tool_line(std::string_view text);  // "" where nothing was said

void print_sample(const PerformanceSample& sample);
void print_samples(std::span<const PerformanceSample> samples);
void print_waited(double percent);

struct BenchmarkTool {
  const char* program;
  const char* package;  // that has it
};

PerformanceSample number_of(std::string_view metric, double value, std::string device = {});
PerformanceSample number_of(std::string_view metric, const Result<double>& value);
PerformanceSample no_number(std::string_view metric, const std::string& why);

// Why a run gave no number: the tool is not installed, did not end, or what it said last.
PerformanceSample no_number(std::string_view metric, const BenchmarkTool& tool, const ToolRun& run);
// Of each metric.
std::vector<PerformanceSample> no_numbers(std::span<const std::string_view> metrics,
                                          const std::string& why);
std::vector<PerformanceSample> no_numbers(std::span<const std::string_view> metrics,
                                          const BenchmarkTool& tool, const ToolRun& run);

// "dcgmi ended with 1: …", of a tool that is there.
std::string why_no_number(const BenchmarkTool& tool, const ToolRun& run);

}  // namespace muster
