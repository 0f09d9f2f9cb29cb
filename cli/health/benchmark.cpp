#include "cli/health/benchmark.h"

#include <algorithm>
#include <chrono>

#include "cli/health/profile.h"
#include "cli/health/sources.h"
#include "cli/terminal/terminal.h"
#include "health/benchmark/plan.h"
#include "health/checks/infiniband/port.h"
#include "health/model/performance.h"
#include "health/output/finding_report.h"
#include "launcher/os/child.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

std::vector<std::string> names_of_probes() {
  std::vector<std::string> names;
  for (const ProbeSpec& spec : probe_specs()) {
    if (spec.reach == ProbeReach::node) names.emplace_back(spec.name);
  }
  return names;
}

// Those that the profile judges, or, where it names none, all that are InfiniBand.
std::vector<std::string> hcas_of(HealthSources& sources, const HealthProfile& profile) {
  const SourceFiles files = infiniband_files(sources);
  const bool is_named = !profile.ib.ports.empty();
  std::vector<std::string> names;
  for (const auto& port : is_named ? judged_ports(files, profile) : find_ports(files)) {
    const bool is_usable = is_infiniband(files, port) && is_judged(profile, "perf.ib_loop", port) &&
                           (is_named || !is_management_device(files, port.device));
    if (is_usable) names.push_back(hca_name(port));
  }
  return names;
}

ProbePlan plan_of(HealthSources& sources, const HealthProfile& profile,
                  const MeasureWanted& wanted) {
  ProbeSituation situation;
  situation.learns = wanted.learns;
  situation.named = wanted.only;
  if (wanted.burn_minutes) situation.verify = std::chrono::minutes(*wanted.burn_minutes);
  situation.gpus = kind_of(sources).gpu_count;
  situation.hcas = hcas_of(sources, profile);
  situation.disk_directory = wanted.disk;
  return plan_probes(profile, situation);
}

// Named, and not in the plan: this node cannot run it.
std::string left_out_of(const ProbePlan& plan, const std::vector<std::string>& only) {
  std::vector<std::string> names = only;
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::any_of(plan.probes,
                               [&](const PlannedProbe& one) { return one.spec->name == name; });
  });
  return joined(names);
}

bool has_any_number(const ProbeFigures& figures) {
  return std::ranges::any_of(figures.samples,
                             [](const PerformanceSample& one) { return one.value.has_value(); });
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

}  // namespace

BenchmarksAsked checked_benchmarks(BenchmarksAsked asked) {
  const auto minutes = asked.burn_minutes.value_or(1);
  if (minutes < 1 || minutes > verify_minutes_max) {
    throw VerbEnd(usage_error, "--burn-minutes: expected 1 to " +
                                   std::to_string(verify_minutes_max) + ", got " +
                                   std::to_string(minutes));
  }
  if (asked.gate && asked.burn_minutes) {
    throw VerbEnd(usage_error, "--gate has no time for --burn-minutes");
  }
  const std::string misnamed = misnamed_probe(asked.only);
  if (!misnamed.empty()) throw VerbEnd(usage_error, misnamed);
  // Who says for how long means that it be run.
  if (asked.burn_minutes && !asked.only.empty()) asked.only.emplace_back("cpu-sdc");
  return asked;
}

std::string misnamed_probe(const std::vector<std::string>& only) {
  const std::vector<std::string> names = names_of_probes();
  for (const std::string& name : only) {
    if (std::ranges::find(names, name) != names.end()) continue;
    return "--only: there is no benchmark '" + name + "' of one node; " +
           did_you_mean(name, names, "there are " + joined(names));
  }
  return {};
}

ProbeFigures measure_node(HealthSources& sources, const HealthProfile& profile,
                          const MeasureWanted& wanted, const CommonOptions& common) {
  std::string misnamed = misnamed_probe(wanted.only);
  const bool is_disk_asked_for = std::ranges::find(wanted.only, "disk") != wanted.only.end();
  if (is_disk_asked_for && wanted.disk.empty()) misnamed = "--only disk: --disk names where";
  if (!misnamed.empty()) throw VerbEnd(usage_error, misnamed);
  const ProbePlan plan = plan_of(sources, profile, wanted);
  const std::string left_out = left_out_of(plan, wanted.only);
  if (!left_out.empty() && plan.impossible.empty()) {
    notice("skipped: " + left_out + ": this node cannot run it, or the profile turned it off",
           common);
  }
  const std::string busy = plan.probes.empty() ? ""
                           : wanted.gate       ? who_runs_here(sources)
                                               : why_not_idle(sources);
  if (!busy.empty() && !wanted.force) {
    const std::string hint(wanted.gate ? "" : force_hint);
    throw VerbEnd(unclear_health, "this host is not idle: " + busy + hint);
  }
  if (!plan.probes.empty()) notice("measures " + cost_text(plan), common);
  ProbeRunner runner;
  runner.program = wanted.program;
  if (runner.program.empty()) runner.program = {self_exe(), "agent", "probe"};
  runner.on_start = [&](const PlannedProbe& probe) {
    if (plan.probes.size() > 1) {
      notice(std::string(probe.spec->name) + ": about " + elapsed_text(probe.time), common);
    }
  };
  ProbeFigures figures = run_probes(plan, runner);
  for (const std::string& one : figures.strange) notice(one, common);
  figures.busy = busy;
  return figures;
}

HostHealth judge_figures(const ProbeFigures& figures, const HealthProfile& profile,
                         const ActiveMoment& moment, HealthState& state) {
  const std::vector<HealthFinding> findings = judge_samples(profile, figures.samples, {});
  NodeHealth health(profile, std::move(state.health));
  health.begin(moment.run.boot_id, moment.at);
  health.take(findings, {moment.at, 0, {}});
  state.host = moment.run.host;
  state.health = health.memory();

  HostHealth host = health_of(moment.run, profile.name, moment.took);
  host.metrics = figures.samples;
  std::map<std::string, int> of_check;
  for (const HealthFinding& finding : findings) ++of_check[finding.check];
  for (const HealthFinding& finding : findings) {
    const double took_ms = took_of(figures, finding.check) / of_check[finding.check];
    host.findings.push_back(
        report_of(finding, took_ms, moment.run, health.rules(), state.health.streaks));
  }
  NodeVerdict verdict = health.verdict(moment.at.wall);
  // Other checks have their own runs.
  keep_checks(verdict, [](const std::string& check) { return check.starts_with("perf."); });
  host.verdict = report_of(verdict);
  if (!has_any_number(figures) && host.verdict.state == HealthExit::healthy)
    host.verdict.state = HealthExit::unclear;
  return host;
}

std::optional<std::filesystem::path> active_state_file(const HealthRunOptions& options,
                                                       const std::string& host) {
  return options.measured->gate ? std::nullopt : state_file_of(options, host);
}

int run_health_active(const HealthRunOptions& options, const CommonOptions& common) {
  MeasureWanted wanted{checked_benchmarks(*options.measured)};
  if (options.timeout) throw VerbEnd(usage_error, "--timeout goes with NODE or --target");
  HealthSources sources(own_sources("/"));
  const bool is_named = options.profile_alone || !options.profile.empty();
  const HealthProfile profile =
      is_named ? or_end(named_profile(options.profile, common, options.profile_alone), invalid_file)
               : profile_by_sources(sources, "", "; --profile names one", common);
  const auto began = std::chrono::steady_clock::now();
  const ProbeFigures figures = measure_node(sources, profile, wanted, common);
  if (figures.samples.empty()) {
    throw VerbEnd(
        static_cast<int>(HealthExit::unclear),
        "nothing was measured: the profile has no minimum for a benchmark of one node; --only "
        "measures without one, `muster health learn --measure` writes minimums");
  }

  // What is remembered is read late: other runs wrote it while the probes ran.
  const bool was_busy = !figures.busy.empty();
  if (was_busy) notice("not idle: " + figures.busy + ": state not saved", common);
  const auto file = was_busy ? std::nullopt : active_state_file(options, sources.host());
  HealthState state = remembered_health(file, sources.host(), common);
  ActiveMoment moment;
  moment.at = sources.now();
  moment.run = {moment.at.wall, sources.host(), sources.boot_id()};
  moment.took = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began);
  HealthResult result{
      moment.at.wall, HealthExit::unclear, {judge_figures(figures, profile, moment, state)}};
  remember(file, state, common);
  if (has_any_number(figures)) result.exit = result.hosts.front().verdict.state;
  if (was_busy && result.exit != HealthExit::healthy) result.exit = HealthExit::unclear;
  return give_health(result, options.all, options.prometheus_file, common);
}

}  // namespace muster
