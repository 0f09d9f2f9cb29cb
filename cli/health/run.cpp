#include "cli/health/run.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include <nlohmann/json.hpp>

#include "cli/health/host.h"
#include "cli/health/profile.h"
#include "cli/health/result.h"
#include "cli/health/slurm.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "health/checks/check_names.h"
#include "health/learn/profile.h"
#include "health/monitor/node_monitor.h"
#include "health/read/files.h"
#include "scheduler/model/exit_code.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/spelling.h"

namespace muster {

namespace {

// As many samples as a profile may ask for within a person's patience.
constexpr int host_looks_most = 5;

HealthProfile profile_for(const HealthRunOptions& options, const LookWanted& wanted,
                          HealthSources& sources, HealthState& state, const CommonOptions& common) {
  if (options.profile_alone || !options.profile.empty()) {
    return or_end(named_profile(options.profile, common, options.profile_alone), wanted.if_invalid);
  }
  const ShippedProfile* kept = wanted.keeps_profile ? find_shipped_profile(state.profile) : nullptr;
  if (kept != nullptr) return profile_of(*kept);
  HealthProfile profile =
      profile_by_sources(sources, state.profile,
                         ": checks that need a profile are skipped; --profile names one", common);
  state.profile = profile.name;
  return profile;
}

HealthResult result_of(const NodeLook& look) {
  HealthResult result{wall_clock_now(), HealthExit::unclear, {look.result()}};
  result.exit = result.hosts.front().verdict.state;
  return result;
}

void report_hung(const HostHealth& host, const CommonOptions& common) {
  if (wants_table(common)) return;  // it is part of the text
  for (const HungSource& hung : host.hung) {
    notice("hung: " + hung.source + ": " + hung.why, common);
  }
}

namespace fs = std::filesystem;

constexpr const char* profile_file = "profile.yml";

// Recording into a folder of other files would mix them with sources.
Status make_empty(const std::string& directory) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (!failed && fs::is_empty(directory, failed) && !failed) return Done{};
  return Error{"cannot record to " + directory + ": " +
               (failed ? failed.message() : "it is not empty")};
}

std::string log_text(const std::vector<KernelLine>& lines) {
  std::string text;
  for (const KernelLine& line : lines) text += kmsg_text(line);
  return text.empty() ? "\n" : text;  // a log without lines is a log
}

// The log and the driver's answers are readings too: each goes where a recorded root has it.
SourceFiles files_of(HealthSources& sources) {
  SourceFiles files = sources.all().files;
  // It names the subscription and its users' keys.
  if (files.all().contains(cloud_metadata)) {
    files.add(cloud_metadata, FileReading{{}, "not recorded", true});
  }
  const std::string log = log_text(sources.kernel_lines());
  if (sources.log_error().empty()) {
    files.add(kernel_log_path, log);
  } else {
    files.add(kernel_log_path, FileReading{{}, sources.log_error(), false});
  }
  if (sources.all().gpus) files.add(recorded_nvml, write_gpu_readings(*sources.all().gpus));
  return files;
}

}  // namespace

std::optional<std::filesystem::path> state_file_of(const HealthKept& options,
                                                   const std::string& host,
                                                   const std::string& kind) {
  if (options.forget) return std::nullopt;
  if (!options.state.empty()) return options.state;
  return usual_state_file(host, kind);
}

void check_patterns(const std::vector<std::string>& patterns) {
  const std::vector<std::string> names = names_of_checks();
  for (const std::string& pattern : patterns) {
    const auto fits = [&](const std::string& name) { return fits_pattern(pattern, name); };
    if (std::ranges::any_of(names, fits)) continue;
    throw VerbEnd(usage_error,
                  "--check: no check is called '" + pattern + "'; " +
                      did_you_mean(pattern, names, "`muster health checks` lists them"));
  }
}

PreparedLook prepare_look(const HealthRunOptions& options, const LookWanted& wanted,
                          const CommonOptions& common) {
  PreparedLook prepared;
  HealthSourcesOptions reading = own_sources(options.root);
  reading.limits = wanted.limits;
  prepared.sources = std::make_unique<HealthSources>(std::move(reading));
  // A recorded host's counters do not go on.
  const bool is_kept = prepared.sources->is_this_host() || !options.state.empty();
  if (is_kept) prepared.state_file = state_file_of(options, prepared.sources->host());
  HealthState state = remembered_health(prepared.state_file, prepared.sources->host(), common);
  LookOptions look;
  look.profile = profile_for(options, wanted, *prepared.sources, state, common);
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
  remember(prepared.state_file, prepared.look->state(), common);
  if (options.prometheus_file.empty()) return 0;
  return write_prometheus_file(options.prometheus_file, result_of(*prepared.look), common);
}

int run_health(const HealthRunOptions& options, const CommonOptions& common) {
  check_patterns(options.checks);
  if (options.timeout) throw VerbEnd(usage_error, "--timeout goes with NODE or --target");
  if (options.slurm) return run_slurm_hook(options, common);
  LookWanted wanted;
  wanted.phase = phase_of(options.phase).value_or(Phase::on_demand);
  if (options.beside_ranks) wanted.phase = Phase::periodic;
  const PreparedLook ready = prepare_look(options, wanted, common);
  look_until_sure(*ready.look, options.quick ? 1 : host_looks_most);
  const int kept = keep_results(ready, options, common);
  const HealthResult result = result_of(*ready.look);
  report_hung(result.hosts.front(), common);
  const int code = report_health(result, options.all, common);
  return kept != 0 ? kept : code;
}

Status record_sources(HealthSources& sources, const HealthProfile& profile,
                      const std::string& directory) {
  sources.read(learning_request());
  NodeMonitor monitor(profile, {.root = sources.root(), .nvml_library = {}});
  monitor.begin(sources.boot_id(), sources.now());
  CheckSituation situation;
  situation.may_pause = false;
  run_checks(monitor, sources, situation);
  return write_files(files_of(sources), directory);
}

int record_health(const HealthRecordOptions& options, const CommonOptions& common) {
  or_end(make_empty(options.directory));
  HealthSources sources(own_sources(options.root));
  const auto profile = options.profile.empty()
                           ? profile_by_sources(sources, "", "", common)
                           : or_end(named_profile(options.profile, common), invalid_file);
  or_end(record_sources(sources, profile, options.directory));
  std::string replay = "muster health --root " + options.directory;
  if (!profile.name.empty()) {
    const std::string file = options.directory + "/" + profile_file;
    write_new_file(file, write_health_profile(profile));
    replay += " --profile " + file;
  }
  notice(std::to_string(sources.all().files.all().size()) + " sources are in " + options.directory +
             ", with lines of the kernel's log; next: " + replay,
         common);
  return 0;
}

}  // namespace muster
