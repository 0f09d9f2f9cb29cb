#include "health/benchmark/run.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "health/benchmark/tools/sample_line.h"
#include "health/read/tool_process.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// Why a metric that is not told of was not, or not of all devices.
std::string why_silent(const PlannedProbe& probe, const ToolRun& run) {
  const std::string said = probe_text(run.errors.substr(0, run.errors.find('\n')));
  const std::string because = said.empty() ? "" : ": " + said;
  if (!run.is_found) return "the benchmark could not be started" + because;
  if (run.exit_code) {
    return *run.exit_code == 0 && said.empty()
               ? "the benchmark reported nothing for it"
               : "the benchmark ended with " + std::to_string(*run.exit_code) + because;
  }
  return "the benchmark was killed after " + std::to_string(probe.killed_after.count()) + " s";
}

// Devices that a probe does not come to are missed by nobody: one that did not end well has told of
// less than there is.
void add_untold(ProbeOutput& output, const PlannedProbe& probe, const ToolRun& run) {
  const bool ended_well = run.exit_code && *run.exit_code == 0;
  for (const std::string& metric : probe.metrics) {
    int devices = 0;
    bool is_of_node = false;
    for (const PerformanceSample& one : output.samples) {
      if (one.metric != metric) continue;
      if (one.device.empty()) is_of_node = true;
      ++devices;
    }
    // Of a metric of the node there is a sample, or why there is none.
    if (is_of_node || (ended_well && devices >= probe.devices)) continue;
    const std::string counted = "the benchmark reported " + std::to_string(devices) + " of " +
                                std::to_string(probe.devices) + " devices";
    output.samples.push_back(
        {metric, "", std::nullopt, ended_well ? counted : why_silent(probe, run)});
  }
}

void run_probe_of(const PlannedProbe& probe, const ProbeRunner& runner, ProbeFigures& figures) {
  std::vector<std::string> argv = runner.program;
  argv.insert(argv.end(), probe.words.begin(), probe.words.end());
  const auto began = Clock::now();
  const ToolRun run = ToolProcess(argv).wait(began + probe.killed_after);
  const double took_ms = std::chrono::duration<double, std::milli>(Clock::now() - began).count();
  ProbeOutput output = read_probe_output(run.output);
  add_missing_samples(output, probe.metrics, why_silent(probe, run));
  add_untold(output, probe, run);
  if (output.refused > 0) {
    figures.strange.push_back(probe.words.front() + ": " + std::to_string(output.refused) +
                              " lines are not from a benchmark, as '" + output.first_refused + "'");
  }
  // It may print more than it was asked for.
  for (PerformanceSample& sample : output.samples) {
    if (std::ranges::find(probe.metrics, sample.metric) == probe.metrics.end()) continue;
    figures.took_ms[sample.metric] = took_ms;
    figures.samples.push_back(std::move(sample));
  }
}

}  // namespace

ProbeFigures run_probes(const ProbePlan& plan, const ProbeRunner& runner) {
  ProbeFigures figures;
  for (const PlannedProbe& probe : plan.probes) {
    if (runner.on_start) runner.on_start(probe);
    run_probe_of(probe, runner, figures);
  }
  std::ranges::copy(plan.impossible, std::back_inserter(figures.samples));
  return figures;
}

}  // namespace muster
