// Which benchmarks a run on a node needs, and what they cost: those that measure what the profile
// states a floor for; all that the node can run, when a profile is to be learned from it. What
// counts faults has no floor: it is run where the profile names its check under `checks` or
// `required`, or somebody names the benchmark or says for how long. Pure.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/benchmark/samples.h"
#include "health/model/check.h"
#include "health/model/performance.h"
#include "health/model/profile.h"

namespace muster {

// Who takes part.
enum class ProbeReach {
  node,  // alone
  pair   // two nodes: one serves, one connects
};

// Of processors whose results are verified.
inline constexpr int verify_minutes_max = 120;

struct ProbeSpec {
  std::string_view name;  // the first of its words
  ProbeReach reach;
  std::vector<std::string_view> metrics;
  std::chrono::seconds time;   // it ends by itself about then, on one device
  std::chrono::seconds limit;  // beyond that before it is killed: hosts that are slow, setting up
  bool uses_gpus = false;
  bool uses_hcas = false;
};

std::span<const ProbeSpec> probe_specs();
const ProbeSpec* find_probe(std::string_view name);

// What is known of the node, and what is asked for.
struct ProbeSituation {
  bool learns = false;                           // whatever it can run
  std::vector<std::string> named{};              // these probes alone, floor or none
  std::optional<std::chrono::minutes> verify{};  // processors under full load, for so long
  int gpus = 0;
  std::vector<std::string> hcas{};  // "mlx5_0"
  std::string disk_directory{};     // empty: no disk is written
};

struct PlannedProbe {
  const ProbeSpec* spec = nullptr;
  std::vector<std::string> words;    // of run_probe, of a pair's: see below
  std::vector<std::string> metrics;  // that are judged; it may print more
  std::chrono::seconds time{0};
  std::chrono::seconds killed_after{0};
  int devices = 0;  // that it should tell of, each metric; 0: nobody knows
};

struct ProbePlan {
  std::vector<PlannedProbe> probes;  // cheap ones first
  // What should be measured and cannot be: the node has no such device.
  std::vector<PerformanceSample> impossible;
};

// Of one node: no pairs.
ProbePlan plan_probes(const HealthProfile& profile, const ProbeSituation& situation);

// The words of the two ends of a pair's probe. Ports from `port` on must be free at the serving
// end: one, or two for each HCA.
std::vector<std::string> serving_words(const PlannedProbe& probe, int port);
std::vector<std::string> connecting_words(const PlannedProbe& probe, const std::string& host,
                                          int port);
std::chrono::seconds time_of(const ProbePlan& plan);

// What measuring a node will take, told from its profile before anybody has looked at the node.
// Pure.

// Where a profile does not say how many there are.
inline constexpr int expected_gpus = 8;
inline constexpr int expected_hcas = 8;

// Of one node. GPUs and HCAs are those that the profile says.
ProbePlan expected_plan(const HealthProfile& profile, ProbeSituation wanted);

// What is left when each probe is killed at its limit.
std::chrono::seconds longest_time_of(const ProbePlan& plan);
std::vector<std::string> probe_names(const ProbePlan& plan);

// Without the probes that have another name, and what they would have measured.
void keep_only(ProbePlan& plan, std::span<const std::string> names);

// "cpu, memory: about 10s, 1m 30s at most", of a plan that is not empty.
std::string cost_text(const ProbePlan& plan);

// Runs the probes of a plan on this host, one after the other, each as a child that is killed when
// its time is over. Blocks for as long as they take; for processes of one thread.

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
