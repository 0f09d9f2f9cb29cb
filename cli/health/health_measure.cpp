#include "cli/health/health_measure.h"

#include <algorithm>

#include "cli/health/health_report.h"
#include "cli/health/idle.h"
#include "cli/health/profile.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "health/benchmark/plan.h"
#include "health/checks/infiniband/port.h"
#include "health/checks/infiniband/sources.h"
#include "launcher/os/child.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/spelling.h"

namespace muster {

namespace {

bool is_of_this_node(const ProbeSpec& spec) {
  return spec.reach == ProbeReach::node;
}

std::vector<std::string> names_of_probes() {
  std::vector<std::string> names;
  for (const ProbeSpec& spec : probe_specs()) {
    if (is_of_this_node(spec)) names.emplace_back(spec.name);
  }
  return names;
}

// Those that the profile judges, or, where it names none, all that are InfiniBand.
std::vector<std::string> hcas_of(HealthSources& sources, const HealthProfile& profile) {
  NodeReadRequest request;
  for (const std::string_view one : infiniband_state_sources()) request.sources.emplace_back(one);
  const SourceFiles files = sources.read(std::move(request)).files;
  std::vector<std::string> names;
  const auto ports = profile.ib.ports.empty() ? find_ports(files) : judged_ports(files, profile);
  for (const InfinibandPort& port : ports) {
    const bool is_usable = !is_virtual_function(files, port.device) &&
                           files.text(port.path("link_layer")) == "InfiniBand" &&
                           is_judged(profile, "perf.ib_loop", port);
    const bool is_named = !profile.ib.ports.empty() || !is_management_device(files, port.device);
    if (is_usable && is_named) names.push_back(port.number == "1" ? port.device : port.name());
  }
  return names;
}

ProbePlan plan_of(HealthSources& sources, const HealthProfile& profile,
                  const MeasureWanted& wanted) {
  ProbeSituation situation;
  situation.phase = Phase::on_demand;
  situation.learns = wanted.learns || !wanted.only.empty();
  situation.named = wanted.only;
  situation.burn = wanted.burn;
  situation.before_a_job = wanted.before_a_job;
  situation.gpus = kind_of(sources).gpu_count;
  situation.hcas = hcas_of(sources, profile);
  situation.disk_directory = wanted.disk_directory;
  ProbePlan plan = plan_probes(profile, situation);
  if (!wanted.only.empty()) keep_only(plan, wanted.only);
  return plan;
}

// Named, and not in the plan: this node cannot run it.
std::string left_out_of(const ProbePlan& plan, const std::vector<std::string>& only) {
  std::string names;
  for (const std::string& name : only) {
    const bool is_planned = std::ranges::any_of(
        plan.probes, [&](const PlannedProbe& one) { return one.spec->name == name; });
    if (!is_planned) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

}  // namespace

std::string misnamed_probe(const std::vector<std::string>& only) {
  const std::vector<std::string> names = names_of_probes();
  for (const std::string& name : only) {
    if (std::ranges::find(names, name) != names.end()) continue;
    std::string all;
    for (const std::string& one : names) all += (all.empty() ? "" : ", ") + one;
    const std::string meant = did_you_mean(name, names);
    return "--only: there is no probe '" + name + "' of one node; " +
           (meant.empty() ? "there are " + all : meant);
  }
  return {};
}

std::variant<ProbeFigures, MeasureRefused> measure_node(HealthSources& sources,
                                                        const HealthProfile& profile,
                                                        const MeasureWanted& wanted,
                                                        const CommonOptions& common) {
  std::string misnamed = misnamed_probe(wanted.only);
  const bool is_disk_asked_for = std::ranges::find(wanted.only, "disk") != wanted.only.end();
  if (is_disk_asked_for && wanted.disk_directory.empty())
    misnamed = "--only disk: --disk names where";
  if (!misnamed.empty()) {
    complain(misnamed, common);
    return MeasureRefused{usage_error};
  }
  const ProbePlan plan = plan_of(sources, profile, wanted);
  const std::string left_out = left_out_of(plan, wanted.only);
  if (!left_out.empty() && plan.impossible.empty()) {
    notice("left out: " + left_out + ": this node cannot run it, or the profile turned it off",
           common);
  }
  const std::string busy = plan.probes.empty()   ? ""
                           : wanted.before_a_job ? who_runs_here(sources)
                                                 : why_not_idle(sources);
  if (!busy.empty() && !wanted.force) {
    const std::string hint(wanted.before_a_job ? "" : force_hint);
    complain("this host is not idle: " + busy + hint, common);
    return MeasureRefused{unclear_health};
  }
  if (!plan.probes.empty()) notice("measures " + cost_text(plan), common);
  ProbeRunner runner;
  runner.program = wanted.program;
  if (runner.program.empty()) runner.program = {own_program(), "agent", "probe"};
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

}  // namespace muster
