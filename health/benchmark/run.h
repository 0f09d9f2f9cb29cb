// Runs the probes of a plan on this host, one after the other, each as a child that is killed when
// its time is over. Blocks for as long as they take; for processes of one thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "health/benchmark/plan.h"
#include "health/benchmark/samples.h"

namespace muster {

struct ProbeRunner {
  std::vector<std::string> program;  // before a probe's words: muster agent probe
  std::function<void(const PlannedProbe&)> on_start;
};

struct ProbeFigures {
  std::vector<PerformanceSample> samples;  // of each planned metric at least one
  std::map<std::string, double> took_ms;   // by metric, of its probe
  std::vector<std::string> strange;        // "disk: 3 lines are not from a benchmark, as 'xyz'"
  std::string busy{};                      // why slow is no fault of the node's; empty: it was idle
};
ProbeFigures run_probes(const ProbePlan& plan, const ProbeRunner& runner);

}  // namespace muster
