#include "cli/health/run.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include <nlohmann/json.hpp>

#include "cli/health/profile.h"
#include "cli/health/result.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "health/checks/check_names.h"
#include "health/checks/infiniband/infiniband_checks.h"
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

constexpr Phase phases[] = {Phase::prolog,     Phase::periodic,  Phase::epilog,
                            Phase::on_failure, Phase::on_demand, Phase::qualification};

bool is_same_fault(const HealthFinding& one, const HealthFinding& other) {
  return one.check == other.check && one.device == other.device;
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

std::string_view name_of(Phase phase) {
  return phase_names[std::ranges::find(phases, phase) - std::begin(phases)];
}

std::optional<Phase> phase_of(std::string_view name) {
  const auto* found = std::ranges::find(phase_names, folded(name), folded);
  return found == std::end(phase_names) ? std::nullopt
                                        : std::optional(phases[found - std::begin(phase_names)]);
}

RunFindings run_checks(NodeMonitor& monitor, HealthSources& sources,
                       const CheckSituation& situation) {
  CheckRun run(monitor, situation);
  while (true) {
    const RunStep step = run.next();
    if (const auto* read = std::get_if<ReadNext>(&step)) {
      const NodeReadings readings = sources.read(read->request);
      run.read(readings, sources.now());
    } else if (const auto* pause = std::get_if<PauseNext>(&step)) {
      std::this_thread::sleep_for(pause->time);
      run.paused();
    } else {
      break;
    }
  }
  RunFindings found{run.findings(), {}};
  for (const HealthFinding& finding : found.findings) {
    found.took_ms.push_back(run.took_ms(finding));
  }
  return found;
}

NodeLook::NodeLook(HealthSources& sources, LookOptions options, HealthState saved)
    : sources_(sources),
      options_(std::move(options)),
      monitor_(options_.profile, {.root = sources.root(), .nvml_library = {}},
               std::move(saved.monitor)),
      health_(options_.profile, std::move(saved.health)),
      saved_profile_(std::move(saved.profile)),
      judged_boot_id_(std::move(saved.judged_boot_id)),
      judged_at_(saved.judged_at) {
  const CheckMoment now = sources_.now();
  monitor_.begin(sources_.boot_id(), now);
  health_.begin(sources_.boot_id(), now);
}

CheckSituation NodeLook::situation() const {
  CheckSituation situation;
  situation.phase = options_.phase;
  situation.is_idle = options_.is_idle;
  situation.ended_uids = options_.ended_uids;
  situation.helper = sources_.helper_facts();
  situation.kernel_log_error = sources_.log_error();
  situation.may_pause = options_.may_pause;
  return situation;
}

void NodeLook::take(std::vector<HealthFinding> findings, const FindingsTaken& taken) {
  std::erase_if(findings, [&](const HealthFinding& one) {
    return !is_asked_for(options_.checks, one.check);
  });
  if (taken.groups == 0 && findings.empty()) return;
  health_.take(findings, taken);
  if (taken.groups == 0) std::ranges::move(findings, std::back_inserter(events_));
}

void NodeLook::look() {
  ++looks_;
  const std::vector<KernelLine> lines = sources_.kernel_lines();
  take(monitor_.on_kernel_lines(lines, sources_.now()), {sources_.now(), 0, {}});
  const CheckSituation now = situation();
  RunFindings run = run_checks(monitor_, sources_, now);
  take(monitor_.tick(sources_.now()), {sources_.now(), 0, {}});
  take(run.findings, {sources_.now(), now.groups, {}});
  run_ = std::move(run);
  judged_boot_id_ = sources_.boot_id();
  judged_at_ = sources_.now().since_boot;
}

NodeVerdict NodeLook::verdict() const {
  NodeVerdict verdict = health_.verdict(sources_.now().wall);
  keep_checks(verdict,
              [&](const std::string& check) { return is_asked_for(options_.checks, check); });
  return verdict;
}

std::optional<Milliseconds> NodeLook::verdict_age() const {
  const CheckMoment now = sources_.now();
  const bool is_of_this_boot = !judged_boot_id_.empty() && judged_boot_id_ == sources_.boot_id();
  if (!is_of_this_boot || now.since_boot < judged_at_) return std::nullopt;
  return std::chrono::duration_cast<Milliseconds>(now.since_boot - judged_at_);
}

bool NodeLook::is_open() const {
  // What hangs was waited for, and would be again.
  return sources_.hung().empty() && health_exit(verdict()) == HealthExit::unclear;
}

// An event that still stands is told by the run as well.
RunFindings NodeLook::latest() const {
  RunFindings all;
  for (const HealthFinding& event : events_) {
    const bool is_reported = std::ranges::any_of(run_.findings, [&](const HealthFinding& one) {
      return is_same_fault(one, event) && one.status != CheckStatus::pass;
    });
    if (is_reported) continue;
    all.findings.push_back(event);
    all.took_ms.push_back(0);
  }
  for (std::size_t i = 0; i < run_.findings.size(); ++i) {
    const bool is_event = std::ranges::any_of(all.findings, [&](const HealthFinding& event) {
      return is_same_fault(event, run_.findings[i]);
    });
    if (is_event || !is_asked_for(options_.checks, run_.findings[i].check)) continue;
    // Some hundred counters of a node that nobody looked at before.
    if (is_first_reading(run_.findings[i]) &&
        !is_required(options_.profile, run_.findings[i].check)) {
      ++all.first_readings;
      continue;
    }
    all.findings.push_back(run_.findings[i]);
    all.took_ms.push_back(run_.took_ms[i]);
  }
  return all;
}

// What keeps jobs away has its row, though this run found nothing of it.
void NodeLook::show_fault(HostHealth& host, const ActiveFault& fault, const RunFacts& run) const {
  const auto is_of_fault = [&](const FindingReport& one) {
    return one.check == fault.finding.check && one.device == fault.finding.device;
  };
  const auto is_shown = [&](const FindingReport& one) {
    return is_of_fault(one) && one.status != word_of(CheckStatus::pass);
  };
  if (std::ranges::any_of(host.findings, is_shown)) return;
  std::erase_if(host.findings, is_of_fault);
  HealthFinding finding = fault.finding;
  finding.evidence.push_back("not seen in this run, last " + utc_text(fault.last_bad) +
                             "; active until " + stands_until(fault));
  host.findings.push_back(report_of(finding, 0, run, health_.rules(), health_.memory().streaks));
}

HostHealth NodeLook::result() const {
  const NodeHealthMemory memory = health_.memory();
  const RunFacts run{sources_.now().wall, sources_.host(), sources_.boot_id()};
  const auto took = std::chrono::steady_clock::now() - began_;
  HostHealth host =
      health_of(run, options_.profile.name, std::chrono::duration_cast<Milliseconds>(took));
  host.phase = name_of(options_.phase);
  host.looks = std::max(1, looks_);
  const RunFindings found = latest();
  for (std::size_t i = 0; i < found.findings.size(); ++i) {
    host.findings.push_back(
        report_of(found.findings[i], found.took_ms[i], run, health_.rules(), memory.streaks));
  }
  host.counts.first_readings = found.first_readings;
  const NodeVerdict verdict = this->verdict();
  for (const auto* faults : {&verdict.drains, &verdict.would_drain}) {
    for (const ActiveFault& fault : *faults) show_fault(host, fault, run);
  }
  host.hung = sources_.hung();
  host.beside_ranks = options_.beside_ranks;
  const NodeReadings& all = sources_.all();
  host.versions = node_versions(all.files, all.gpus ? &*all.gpus : nullptr);
  std::erase_if(host.versions,
                [&](const auto& one) { return !is_asked_for(options_.checks, one.first); });
  host.verdict = report_of(verdict);
  host.verdict = concluded(host);
  return host;
}

HealthState NodeLook::state() const {
  HealthState state;
  state.host = sources_.host();
  state.profile = saved_profile_;
  state.judged_boot_id = judged_boot_id_;
  state.judged_at = judged_at_;
  state.monitor = monitor_.memory();
  state.health = health_.memory();
  return state;
}

}  // namespace muster
