#include "cli/health/run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/health/profile.h"
#include "cli/health/result.h"
#include "cli/health/slurm.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "health/checks/check_names.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/spelling.h"

namespace muster {

namespace {

// As many samples as a profile may ask for within a person's patience.
constexpr int host_looks_most = 5;

LookRefused refused(const std::string& sentence, int code, const CommonOptions& common) {
  return {complain(sentence, code, common)};
}

std::optional<std::filesystem::path> state_file(const HealthRunOptions& options,
                                                const HealthSources& sources) {
  if (options.forget) return std::nullopt;
  if (!options.state.empty()) return options.state;
  // A recorded host's counters do not go on.
  return sources.is_this_host() ? usual_state_file(sources.host()) : std::nullopt;
}

Result<HealthProfile> profile_for(const HealthRunOptions& options, const LookWanted& wanted,
                                  HealthSources& sources, HealthState& state,
                                  const CommonOptions& common) {
  if (options.profile_alone) return lone_profile(options.profile, common);
  if (!options.profile.empty()) return named_profile(options.profile, common);
  if (wanted.keeps_profile && find_shipped_profile(state.profile) != nullptr) {
    return named_profile(state.profile, common);
  }
  ChosenProfile chosen = choose_profile(kind_of(sources), state.profile);
  if (!chosen.why_none.empty()) {
    notice(chosen.why_none + ": checks that need a profile are skipped; --profile names one",
           common);
  }
  state.profile = chosen.profile.name;
  return std::move(chosen.profile);
}

HealthResult result_of(const NodeLook& look) {
  HealthResult result{wall_clock_now(), HealthExit::unclear, {look.result()}};
  result.exit = result.hosts.front().verdict.state;
  return result;
}

void tell_hung(const HostHealth& host, const CommonOptions& common) {
  if (wants_table(common)) return;  // it is part of the text
  for (const HungSource& hung : host.hung) {
    notice("hung: " + hung.source + ": " + hung.why, common);
  }
}

}  // namespace

HealthState remembered_state(const std::optional<std::filesystem::path>& file,
                             const std::string& host, const CommonOptions& common) {
  if (!file) return {};
  auto state = load_health_state(*file);
  if (!state) {
    notice(state.error().message + "; starting with empty state", common);
    return {};
  }
  const bool is_of_here = *state && (*state)->host == host;
  return is_of_here ? std::move(**state) : HealthState{};
}

std::string misfit_of_checks(const std::vector<std::string>& patterns) {
  const std::vector<std::string> names = names_of_checks();
  for (const std::string& pattern : patterns) {
    const auto fits = [&](const std::string& name) { return fits_pattern(pattern, name); };
    if (std::ranges::any_of(names, fits)) continue;
    const std::string meant = did_you_mean(pattern, names);
    return "--check: no check is called '" + pattern + "'; " +
           (meant.empty() ? "`muster health checks` lists them" : meant);
  }
  return {};
}

std::string misfit_of(const HealthRunOptions& options, const CommonOptions& common) {
  const std::string misused = misused_query(common);
  return misused.empty() ? misfit_of_checks(options.checks) : misused;
}

std::variant<PreparedLook, LookRefused> prepare_look(const HealthRunOptions& options,
                                                     const LookWanted& wanted,
                                                     const CommonOptions& common) {
  PreparedLook prepared;
  HealthSourcesOptions reading = own_sources(options.root);
  reading.limits = wanted.limits;
  prepared.sources = std::make_unique<HealthSources>(std::move(reading));
  prepared.state_file = state_file(options, *prepared.sources);
  HealthState state = remembered_state(prepared.state_file, prepared.sources->host(), common);
  auto profile = profile_for(options, wanted, *prepared.sources, state, common);
  if (!profile) return refused(profile.error().message, invalid_file, common);
  LookOptions look;
  look.profile = std::move(*profile);
  look.phase = wanted.phase;
  look.checks = options.checks;
  look.ended_uids = wanted.ended_uids;
  look.is_idle = options.idle && !options.beside_ranks;
  look.beside_ranks = options.beside_ranks;
  look.may_pause = wanted.may_pause && !options.quick;
  prepared.look = std::make_unique<NodeLook>(*prepared.sources, std::move(look), std::move(state));
  return prepared;
}

void look_until_sure(NodeLook& look, int looks) {
  look.look();
  while (look.looks() < looks && look.is_open()) {
    std::this_thread::sleep_for(fast_sampling);
    look.look();
  }
}

int keep_results(const PreparedLook& prepared, const HealthRunOptions& options,
                 const CommonOptions& common) {
  if (prepared.state_file) {
    const auto saved = save_health_state(*prepared.state_file, prepared.look->state());
    if (!saved) notice(saved.error().message + ": state not saved", common);
  }
  if (options.prometheus_file.empty()) return 0;
  return write_prometheus_file(options.prometheus_file, result_of(*prepared.look), common);
}

int run_health(const HealthRunOptions& options, const CommonOptions& common) {
  const std::string misfit = misfit_of(options, common);
  if (!misfit.empty()) return refused(misfit, usage_error, common).exit_code;
  if (options.timeout) {
    return refused("--timeout goes with NODE or --target", usage_error, common).exit_code;
  }
  if (options.slurm) return run_slurm_hook(options, common);
  LookWanted wanted;
  wanted.phase = phase_of(options.phase).value_or(Phase::on_demand);
  if (options.beside_ranks) wanted.phase = Phase::periodic;
  auto prepared = prepare_look(options, wanted, common);
  if (const auto* no = std::get_if<LookRefused>(&prepared)) return no->exit_code;
  const auto& ready = std::get<PreparedLook>(prepared);
  look_until_sure(*ready.look, options.quick ? 1 : host_looks_most);
  const int kept = keep_results(ready, options, common);
  const HealthResult result = result_of(*ready.look);
  tell_hung(result.hosts.front(), common);
  const int code = tell_health(result, options.all, common);
  return kept != 0 ? kept : code;
}

}  // namespace muster
