#include "health/benchmark/plan.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "health/benchmark/tools/tools.h"
#include "health/read/tool_process.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

using std::chrono::seconds;

// From its own limit on it asks the tool to end, and then kills it.
constexpr seconds dcgm_margin{20};

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

// Sorted by what they cost.
std::span<const ProbeSpec> probe_specs() {
  using namespace std::chrono_literals;
  using enum ProbeReach;
  // clang-format off
  static const std::vector<ProbeSpec> specs{
      {"cpu", node, {"cpu_gemm_gflops"}, 5s, 25s},
      {"memory", node, {"stream_mb_per_s"}, 5s, 55s},
      {"tcp", pair, {"tcp_gbps", "tcp_latency_us"}, 10s, 80s},
      {"gpu-host", node, {"h2d_gb_per_s", "d2h_gb_per_s"}, 10s, 50s, true},
      // At the first level; see add_probe.
      {"dcgm", node, {dcgm_metric}, dcgm_level(1).time, dcgm_margin, true},
      {"gpu-memory", node, {"hbm_mb_per_s"}, 10s, 50s, true},
      {"ib-loop", node, {"ib_write_bw_gbps"}, 10s, 20s, true, true},
      {"ib-pair", pair, {"ib_write_bw_host_gbps", "ib_latency_p99_us"}, 10s, 70s, false, true},
      {"disk", node, {"fio_write_mb_per_s", "fio_read_mb_per_s"}, 20s, 40s},
      {"cpu-sdc", node, {processor_corruption_metric}, 20s, 60s},
      {"gpu-peer", node, {"p2p_gb_per_s"}, 20s, 60s, true},
      {"gpu-nccl", node, {"allreduce2_gb_per_s", "allreduce4_gb_per_s", "allreduce8_gb_per_s"},
       20s, 100s, true},
      {"gpu-nccl-loop", node, {"ib_loop_allreduce_gb_per_s"}, 20s, 100s, true, true}};
  // clang-format on
  return specs;
}

namespace {

// "allreduce8_gb_per_s" is about nodes of eight GPUs.
bool is_of_this_many_gpus(std::string_view metric, int gpus) {
  constexpr std::string_view allreduce = "allreduce";
  if (!metric.starts_with(allreduce)) return true;
  const std::string count = std::to_string(gpus);
  return metric.substr(allreduce.size()).starts_with(count + "_");
}

class Planner {
 public:
  Planner(const HealthProfile& profile, const ProbeSituation& situation)
      : profile_(profile), situation_(situation) {}

  ProbePlan plan() {
    for (const ProbeSpec& spec : probe_specs()) {
      if (spec.reach == ProbeReach::node) add(spec);
    }
    if (!situation_.named.empty()) keep_only(plan_, situation_.named);
    return std::move(plan_);
  }

 private:
  void add(const ProbeSpec& spec) {
    const std::string lack = lack_of(spec);
    const auto metrics = wanted(spec, lack.empty());
    if (metrics.empty()) return;
    if (lack.empty()) return add_probe(spec, metrics);
    for (const std::string& metric : metrics)
      plan_.impossible.push_back({metric, "", std::nullopt, lack, true});
  }

  void add_probe(const ProbeSpec& spec, std::vector<std::string> metrics) {
    PlannedProbe probe;
    probe.spec = &spec;
    probe.words = {std::string(spec.name)};
    if (spec.name == "disk") probe.words.push_back(situation_.disk_directory);
    const bool names_hcas = spec.name == "ib-loop";
    if (names_hcas)
      probe.words.insert(probe.words.end(), situation_.hcas.begin(), situation_.hcas.end());
    const bool counts_gpus = names_hcas || spec.name.starts_with("gpu-nccl");
    if (counts_gpus)
      probe.words.insert(probe.words.end(), {"--gpus", std::to_string(situation_.gpus)});
    probe.devices = devices_of(spec);
    probe.metrics = std::move(metrics);
    probe.time = spec.time * (names_hcas ? static_cast<int>(situation_.hcas.size()) : 1);
    probe.killed_after = probe.time + spec.limit;
    if (spec.name == "dcgm") set_level(probe);
    if (spec.name == "cpu-sdc") set_time(probe);
    plan_.probes.push_back(std::move(probe));
  }

  void set_level(PlannedProbe& probe) const {
    const double wanted = limit_of(profile_, "perf.dcgm", "level", 1);
    const int level = static_cast<int>(std::clamp(wanted, 1.0, double{dcgm_level_max}));
    probe.words.insert(probe.words.end(), {"--level", std::to_string(level)});
    probe.time = dcgm_level(level).time;
    probe.killed_after = dcgm_level(level).limit + dcgm_margin;
  }

  void set_time(PlannedProbe& probe) const {
    const double of_profile = limit_of(profile_, "perf.sdc", "time_min", 0);
    const auto most = static_cast<double>(verify_minutes_max);
    if (situation_.verify) {
      probe.time = *situation_.verify;
    } else if (of_profile > 0) {
      probe.time = std::chrono::minutes(static_cast<int>(std::clamp(of_profile, 1.0, most)));
    }
    probe.killed_after = probe.time + probe.spec->limit;
    probe.words.insert(probe.words.end(), {"--seconds", std::to_string(probe.time.count())});
  }

  // Where only the node says how many GPUs there are, some may be hidden from the probe on purpose;
  // where the profile leaves some out, they may be gone.
  int devices_of(const ProbeSpec& spec) const {
    return spec.name == "gpu-host" || spec.name == "gpu-memory" ? gpus_stated() : 0;
  }
  int gpus_stated() const {
    const bool leaves_some_out = std::ranges::any_of(
        profile_.exclude, [](const CheckExclusion& one) { return !one.device.empty(); });
    return leaves_some_out ? 0 : profile_.gpu.count.value_or(0);
  }

  std::vector<std::string> wanted(const ProbeSpec& spec, bool is_possible) const {
    std::vector<std::string> metrics;
    for (const std::string_view name : spec.metrics) {
      const PerformanceMetric* metric = find_performance_metric(name);
      const bool is_asked_for = metric->counts_faults
                                    ? is_named(spec) || is_named(*metric)
                                    : is_stated(name) || (is_possible && is_of_interest(name));
      if (is_on(*metric) && is_asked_for) metrics.emplace_back(name);
    }
    return metrics;
  }
  bool is_on(const PerformanceMetric& metric) const {
    // Whoever asks for what only a qualification runs, at any time, has one.
    const Phases phases = find_check(metric.check)->phases;
    return !is_off(profile_, metric.check, "") &&
           (has(phases, Phase::on_demand) || has(phases, Phase::qualification));
  }
  // By its own name: a pattern for many checks means how they are taken, not that they be run.
  bool is_named(const PerformanceMetric& metric) const {
    return profile_.checks.contains(std::string(metric.check)) ||
           std::ranges::find(profile_.required, metric.check) != profile_.required.end();
  }
  bool is_named(const ProbeSpec& spec) const {
    return (spec.name == "cpu-sdc" && situation_.verify) ||
           std::ranges::find(situation_.named, spec.name) != situation_.named.end();
  }
  bool is_stated(std::string_view metric) const {
    return profile_.floors.contains(std::string(metric));
  }
  bool is_of_interest(std::string_view metric) const {
    const bool is_wanted = situation_.learns || !situation_.named.empty();
    return is_wanted && is_of_this_many_gpus(metric, situation_.gpus);
  }

  // Empty: the node has what it takes.
  std::string lack_of(const ProbeSpec& spec) const {
    const bool needs_two = spec.name == "gpu-peer" || spec.name == "gpu-nccl";
    if (spec.uses_gpus && situation_.gpus == 0) return "the node shows no GPU";
    if (needs_two && situation_.gpus < 2) return "the node shows one GPU";
    if (spec.uses_hcas && situation_.hcas.empty()) return "the node shows no InfiniBand device";
    if (spec.name == "ib-loop" && situation_.hcas.size() < 2)
      return "the node shows one InfiniBand device";
    if (spec.name == "disk" && situation_.disk_directory.empty())
      return "no directory for it was named";
    return {};
  }

  const HealthProfile& profile_;
  const ProbeSituation& situation_;
  ProbePlan plan_;
};

// Of "mlx5_[0-7]:1": 8. Nothing when that cannot be told: a range is one of single characters.
std::optional<int> ports_in(std::string_view pattern) {
  if (pattern.find('*') != std::string_view::npos) return std::nullopt;
  const std::size_t open = pattern.find('[');
  if (open == std::string_view::npos) return 1;
  const std::size_t close = pattern.find(']', open);
  if (close == std::string_view::npos) return std::nullopt;
  const std::string_view range = pattern.substr(open + 1, close - open - 1);
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = read_integer(range.substr(0, dash));
  const auto last = read_integer(range.substr(dash + 1));
  const bool is_range = first && last && 0 <= *first && *first <= *last && *last <= 9;
  return is_range ? std::optional(static_cast<int>(*last - *first + 1)) : std::nullopt;
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

const ProbeSpec* find_probe(std::string_view name) {
  const auto found = std::ranges::find(probe_specs(), name, &ProbeSpec::name);
  return found == probe_specs().end() ? nullptr : &*found;
}

ProbePlan plan_probes(const HealthProfile& profile, const ProbeSituation& situation) {
  return Planner(profile, situation).plan();
}

std::vector<std::string> serving_words(const PlannedProbe& probe, int port) {
  std::vector<std::string> words = probe.words;
  words.front() += "-serve";
  words.insert(words.end(), {"--port", std::to_string(port)});
  return words;
}

std::vector<std::string> connecting_words(const PlannedProbe& probe, const std::string& host,
                                          int port) {
  std::vector<std::string> words = probe.words;
  words.front() += "-connect";
  words.insert(words.begin() + 1, host);
  words.insert(words.end(), {"--port", std::to_string(port)});
  return words;
}

seconds time_of(const ProbePlan& plan) {
  seconds sum{0};
  for (const PlannedProbe& probe : plan.probes) sum += probe.time;
  return sum;
}

ProbePlan expected_plan(const HealthProfile& profile, ProbeSituation wanted) {
  wanted.gpus = gpus_in(profile);
  for (int i = 0; i < hcas_in(profile); ++i) wanted.hcas.push_back("mlx5_" + std::to_string(i));
  return plan_probes(profile, wanted);
}

seconds longest_time_of(const ProbePlan& plan) {
  seconds sum{0};
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

std::string cost_text(const ProbePlan& plan) {
  return joined(probe_names(plan)) + ": about " + elapsed_text(time_of(plan)) + ", " +
         elapsed_text(longest_time_of(plan)) + " at most";
}

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
