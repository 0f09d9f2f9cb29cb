#include "cli/health/benchmark.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/health/cluster/nodes.h"
#include "cli/health/health_active_look.h"
#include "cli/health/health_measure.h"
#include "cli/health/profile.h"
#include "cli/health/result.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "health/active/burn_probe.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

HealthState remembered(const std::optional<std::filesystem::path>& file, const std::string& host,
                       const CommonOptions& common) {
  if (!file) return {};
  auto state = load_health_state(*file);
  if (!state) {
    notice(state.error().message + "; it is begun anew", common);
    return {};
  }
  const bool is_of_here = *state && (*state)->host == host;
  return is_of_here ? std::move(**state) : HealthState{};
}

Result<HealthProfile> profile_for(const HealthActiveOptions& options, HealthSources& sources,
                                  const CommonOptions& common) {
  if (options.profile_alone) return lone_profile(options.profile, common);
  if (!options.profile.empty()) return named_profile(options.profile, common);
  ChosenProfile chosen = choose_profile(kind_of(sources), "");
  if (!chosen.why_none.empty()) notice(chosen.why_none + "; --profile names one", common);
  return std::move(chosen.profile);
}

std::optional<std::chrono::minutes> burn_of(const HealthActiveOptions& options) {
  if (!options.burn_minutes) return std::nullopt;
  return std::chrono::minutes(*options.burn_minutes);
}

// Who says for how long means that it be run.
std::vector<std::string> only_of(const HealthActiveOptions& options) {
  std::vector<std::string> only = options.only;
  if (options.burn_minutes && !only.empty()) only.emplace_back(burn_probe);
  return only;
}

// Empty, or what is wrong with the options.
std::string misfit_of(const HealthActiveOptions& options) {
  const auto minutes = options.burn_minutes.value_or(1);
  if (minutes < 1 || minutes > burn_minutes_max) {
    return "--burn-minutes: expected 1 to " + std::to_string(burn_minutes_max) + ", got " +
           std::to_string(minutes);
  }
  return options.gate && options.burn_minutes ? "--gate has no time for --burn-minutes" : "";
}

int measure_nodes(const HealthActiveOptions& options, const CommonOptions& common) {
  const std::string misnamed = misnamed_probe(options.only);
  if (!misnamed.empty()) return complain(misnamed, usage_error, common);
  HealthRunOptions run;
  static_cast<HealthAsked&>(run) = options;
  run.measured = {only_of(options), options.disk, options.force, burn_of(options)};
  return run_health_nodes(run, common);
}

}  // namespace

std::optional<std::filesystem::path> active_state_file(const HealthActiveOptions& options,
                                                       const std::string& host) {
  if (options.forget || options.gate) return std::nullopt;
  if (!options.state.empty()) return options.state;
  return usual_state_file(host);
}

int run_health_active(const HealthActiveOptions& options, const CommonOptions& common) {
  const std::string misused = misused_query(common);
  if (!misused.empty()) return complain(misused, usage_error, common);
  const std::string misfit = misfit_of(options);
  if (!misfit.empty()) return complain(misfit, usage_error, common);
  if (!options.nodes.empty() || !options.target.empty()) return measure_nodes(options, common);
  if (options.timeout) return complain("--timeout goes with NODE or --target", usage_error, common);
  HealthSources sources(own_sources("/"));
  const auto profile = profile_for(options, sources, common);
  if (!profile) return complain(profile.error().message, invalid_file, common);
  MeasureWanted wanted;
  wanted.only = only_of(options);
  wanted.burn = burn_of(options);
  wanted.disk_directory = options.disk;
  wanted.force = options.force;
  wanted.before_a_job = options.gate;
  const auto began = std::chrono::steady_clock::now();
  const auto measured = measure_node(sources, *profile, wanted, common);
  if (const auto* no = std::get_if<MeasureRefused>(&measured)) return no->exit_code;
  const auto& figures = std::get<ProbeFigures>(measured);
  if (figures.samples.empty()) {
    return complain(
        "nothing was measured: the profile has no floor for a probe of one node; --only measures "
        "without one, `muster health learn --measure` writes floors",
        static_cast<int>(HealthExit::unclear), common);
  }

  // What is remembered is read late: other runs wrote it while the probes ran.
  const bool was_busy = !figures.busy.empty();
  if (was_busy) notice("not idle: " + figures.busy + ": nothing of this run is remembered", common);
  const auto file = was_busy ? std::nullopt : active_state_file(options, sources.host());
  HealthState state = remembered(file, sources.host(), common);
  ActiveMoment moment;
  moment.at = sources.now();
  moment.run = {moment.at.wall, sources.host(), sources.boot_id(), {}, utc_text};
  moment.took = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began);
  const ActiveLook look = judge_figures(figures, *profile, moment, state);
  if (file) {
    const auto saved = save_health_state(*file, state);
    if (!saved) notice(saved.error().message + ": nothing of this run is remembered", common);
  }
  const HealthForms forms{moment.at.wall, look.look.reports,
                          [&](const HealthTextForm& form) { return active_text(look, form); },
                          [&] { return health_lines(look.look); },
                          [&] { return active_document(look); }};
  const int written = write_prometheus_file(options.prometheus_file, forms, common);
  const bool is_measured =
      std::ranges::any_of(figures.samples, [](const auto& one) { return one.value.has_value(); });
  HealthExit exit = is_measured ? health_exit(look.look.verdict) : HealthExit::unclear;
  if (was_busy && exit != HealthExit::healthy) exit = HealthExit::unclear;
  const int code = tell_health(forms, exit, options.all, common);
  return written != 0 ? written : code;
}

}  // namespace muster
