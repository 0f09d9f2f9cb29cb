#include "health/monitor/check_run.h"

#include <algorithm>
#include <array>
#include <utility>

#include "health/checks/gpu/gpu_check.h"
#include "health/checks/host/host_checks.h"
#include "health/checks/host/processes.h"
#include "health/checks/infiniband/port.h"
#include "health/monitor/node_monitor.h"
#include "health/verdict/streaks.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

constexpr std::chrono::milliseconds look_pause{1'000};
constexpr std::string_view process_owners = "stat:/proc/[0-9]*";

bool runs(std::string_view check, Phase phase) {
  return runs_in(*find_check(check), phase);
}

bool watches(Phase phase) {
  return runs("host.dstate", phase) || runs("gpu.dstate", phase);
}

bool seeks_leftovers(const CheckSituation& situation) {
  return !situation.ended_uids.empty() && runs("host.leftovers", situation.phase);
}

bool has_something_to_read(const HealthProfile& profile, const CheckSituation& situation,
                           SourceGroup group) {
  if (!has_checks(profile, group, situation.phase)) return false;
  if (group == SourceGroup::gpu) return profile.gpu.count != 0;
  if (group == SourceGroup::infiniband_counters) return !profile.ib.ports.empty();
  return group != SourceGroup::processes || watches(situation.phase) || seeks_leftovers(situation);
}

SourceGroups wanted_groups(const HealthProfile& profile, const CheckSituation& situation) {
  SourceGroups groups = 0;
  for (const SourceGroup group : every_source_group) {
    if (has(situation.groups, group) && has_something_to_read(profile, situation, group))
      groups = with(groups, group);
  }
  return groups;
}

// Checks know an opened node by its path.
void name_opened(SourceFiles& files) {
  constexpr std::string_view probe = "open:";
  std::vector<std::pair<std::string, FileReading>> opened;
  for (const auto& [path, reading] : files.all()) {
    if (path.starts_with(probe)) opened.emplace_back(path.substr(probe.size()), reading);
  }
  for (auto& [path, reading] : opened) files.add(path, std::move(reading));
}

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Period {
  SourceGroup group;
  milliseconds busy;
  milliseconds idle;
};
// A port that goes down is seen within 5 s: the helper's wait for an event, a second, and the read
// take their part of them. Limits of counters are by the half minute and the minute.
constexpr std::array periods{
    Period{SourceGroup::infiniband_state, milliseconds(3'800), seconds(20)},
    Period{SourceGroup::infiniband_counters, seconds(30), seconds(60)},
    // Less than a minute: a verdict must not be older when a job comes.
    Period{SourceGroup::gpu, seconds(60), seconds(50)},
    Period{SourceGroup::host, seconds(60), seconds(50)},
    // 5 to 20 ms a look, and a stuck process is still there later.
    Period{SourceGroup::processes, seconds(120), seconds(120)}};

template <class Sources>
void add_new(std::vector<std::string>& all, const Sources& sources, const char* probe = "") {
  for (const auto& one : sources) {
    const std::string source = probe + std::string(one);
    if (std::ranges::find(all, source) == all.end()) all.push_back(source);
  }
}

// A pattern of ports is one of their devices too. An empty device is all of them.
bool names_port(const HealthProfile& profile, std::string_view device) {
  return std::ranges::any_of(profile.ib.ports, [&](std::string_view pattern) {
    const bool are_ports = pattern.find(':') != pattern.npos && device.find(':') != device.npos;
    const auto part = [&](std::string_view of) {
      return are_ports ? of : of.substr(0, of.find(':'));
    };
    return device.empty() || fits_pattern(part(pattern), part(device));
  });
}

}  // namespace

bool CheckChoice::has(std::string_view check) const {
  const auto names = [&](const std::vector<std::string>& list) {
    return std::ranges::find(list, check) != list.end();
  };
  return !names(skip) && (only.empty() || names(only));
}

CheckRun::CheckRun(NodeMonitor& monitor, CheckSituation situation)
    : monitor_(monitor),
      situation_(std::move(situation)),
      groups_(wanted_groups(monitor.profile(), situation_)) {
  if (groups_ == 0) stage_ = Stage::over;
}

RunStep CheckRun::next() const {
  if (stage_ == Stage::over) return RunOver{};
  if (stage_ == Stage::pause) return PauseNext{look_pause};
  NodeReadRequest request;
  request.root = monitor_.options().root;
  request.nvml_library = monitor_.options().nvml_library;
  if (stage_ == Stage::sources) {
    request.sources = monitor_.sources_for(groups_, situation_.phase);
    if (has(groups_, SourceGroup::processes) && seeks_leftovers(situation_))
      request.sources.emplace_back(process_owners);
  } else if (stage_ == Stage::gpus) {
    request.sources = gpu_device_sources(files_);
    // Lists of processes take a lock that running ranks need; flash memory is slow.
    GpuReadingScope scope;
    scope.processes = situation_.is_idle;
    scope.inforom = reads_all(situation_.phase);
    request.gpus = scope;
  } else {
    request.sources = process_sources_after(process_states_of(looks_.front()));
  }
  return ReadNext{std::move(request)};
}

void CheckRun::read(const NodeReadings& readings, const CheckMoment& at) {
  if (stage_ == Stage::sources) {
    take_sources(readings);
    sources_at_ = at;
    stage_ = has(groups_, SourceGroup::gpu) ? Stage::gpus : after_gpus();
  } else if (stage_ == Stage::gpus) {
    for (const auto& [path, reading] : readings.files.all()) files_.add(path, reading);
    gpus_ = readings.gpus.value_or(GpuReadings());
    gpus_at_ = at;
    gpus_took_ = readings.files_took + readings.gpus_took;
    stage_ = after_gpus();
  } else {
    looks_took_ += readings.files_took;
    looks_.push_back(readings.files);
    stage_ = after_gpus();
  }
  if (stage_ == Stage::over) judge(at);
}

void CheckRun::paused() {
  if (stage_ == Stage::pause) stage_ = Stage::looks;
}

void CheckRun::take_sources(const NodeReadings& readings) {
  files_ = readings.files;
  files_took_ = readings.files_took;
  name_opened(files_);
  if (!has(groups_, SourceGroup::processes)) return;
  SourceFiles look;
  for (const auto& [path, reading] : files_.all()) {
    if (path.starts_with("/proc") || path.starts_with("stat:/proc/")) look.add(path, reading);
  }
  looks_.push_back(std::move(look));
  looks_took_ = files_took_;
}

// Nobody who sleeps in the first look: nobody is stuck.
CheckRun::Stage CheckRun::after_gpus() const {
  const bool is_watching = !looks_.empty() && looks_.size() < stuck_samples &&
                           situation_.may_pause && watches(situation_.phase) &&
                           has_sleeper(looks_.front());
  return is_watching ? Stage::pause : Stage::over;
}

void CheckRun::judge(const CheckMoment& now) {
  is_same_ = situation_.is_sound && monitor_.is_same_look(files_, groups_, situation_);
  if (is_same_) return;
  std::vector<HealthFinding> all;
  const bool has_ports =
      has(groups_, SourceGroup::infiniband_state) || has(groups_, SourceGroup::infiniband_counters);
  if (has_ports)
    append_findings(all, monitor_.look_at_infiniband(files_, groups_, situation_, sources_at_));
  if (gpus_) append_findings(all, monitor_.look_at_gpus(*gpus_, files_, situation_, gpus_at_));
  if (has(groups_, SourceGroup::host))
    append_findings(all, monitor_.look_at_host(files_, situation_, sources_at_));
  if (!looks_.empty()) append_findings(all, monitor_.look_at_processes(looks_, situation_));
  append_findings(all, monitor_.standing(situation_, now));
  for (HealthFinding& finding : all) {
    if (is_kept(finding)) findings_.push_back(std::move(finding));
  }
}

bool CheckRun::is_kept(const HealthFinding& finding) const {
  const CheckSpec* check = find_check(finding.check);
  const bool is_read = (group_of(finding.check) & groups_) != 0;
  if (check == nullptr || !is_read) return false;
  const bool is_asked =
      runs_in(*check, situation_.phase) || situation_.standing.contains(finding.check);
  if (!is_asked) return false;
  const bool is_chosen = finding.status == CheckStatus::pass || situation_.choice.has(check->id);
  if (!is_chosen) return false;
  const CheckRules rules = rules_of(monitor_.profile());
  return mode_of(rules, finding.check, finding.device) != CheckMode::off;
}

double CheckRun::took_ms(const HealthFinding& finding) const {
  const SourceGroups group = group_of(finding.check);
  auto took = files_took_;
  if (group == static_cast<SourceGroups>(SourceGroup::gpu)) took = gpus_took_;
  if (group == static_cast<SourceGroups>(SourceGroup::processes)) took = looks_took_;
  return static_cast<double>(took.count());
}

milliseconds period_of(SourceGroup group, bool is_idle) {
  const auto found = std::ranges::find(periods, group, &Period::group);
  return is_idle ? found->idle : found->busy;
}

SourceGroups group_of(std::string_view check) {
  const CheckSpec* spec = find_check(check);
  return spec == nullptr ? SourceGroups{0} : static_cast<SourceGroups>(spec->group);
}

bool runs_in(const CheckSpec& check, Phase phase) {
  return phase == Phase::on_demand || phase == Phase::qualification || has(check.phases, phase);
}

bool has_checks(const HealthProfile& profile, SourceGroup group, Phase phase) {
  return std::ranges::any_of(every_check(), [&](const CheckSpec* check) {
    return check->group == group && runs_in(*check, phase) &&
           setting_of(profile, check->id).mode != CheckMode::off;
  });
}

bool reads_all(Phase phase) {
  return phase == Phase::prolog || phase == Phase::on_demand || phase == Phase::qualification;
}

std::vector<std::string> sources_of(const HealthProfile& profile, SourceGroups groups,
                                    Phase phase) {
  std::vector<std::string> sources;
  const bool has_states = has(groups, SourceGroup::infiniband_state);
  if (has_states) add_new(sources, infiniband_state_sources());
  if (has(groups, SourceGroup::infiniband_counters)) add_new(sources, infiniband_counter_sources());
  if (has_states && reads_all(phase)) add_new(sources, infiniband_other_sources());
  if (has(groups, SourceGroup::gpu)) add_new(sources, gpu_sources());
  if (has(groups, SourceGroup::processes)) add_new(sources, process_sources());
  if (has_states && reads_all(phase)) add_new(sources, infiniband_device_nodes(), "open:");
  if (has(groups, SourceGroup::gpu) && reads_all(phase))
    add_new(sources, gpu_device_nodes(profile));
  for (const CheckSpec* check : every_check()) {
    const bool is_wanted = check->group != SourceGroup::host && has(groups, check->group);
    if (is_wanted && runs_in(*check, phase)) add_new(sources, check->reads);
  }
  if (has(groups, SourceGroup::host)) add_new(sources, host_sources(profile));
  return sources;
}

bool is_asked_for(const HealthProfile& profile, const HealthFinding& fault) {
  const CheckSpec* check = find_check(fault.check);
  if (check == nullptr) return true;
  const bool is_event = check->believe == Persistence::event;  // it happened, whatever is looked at
  const bool is_of_port = !is_event && (check->group == SourceGroup::infiniband_state ||
                                        check->group == SourceGroup::infiniband_counters);
  const bool has_ports = !profile.ib.ports.empty();
  if (is_of_port && has_ports && !names_port(profile, fault.device)) return false;
  if (is_required(profile, fault.check)) return true;
  if (check->is_asked && !check->is_asked(profile, fault)) return false;
  if (!is_event && check->group == SourceGroup::gpu) return profile.gpu.count != 0;
  return !is_of_port || has_ports;
}

}  // namespace muster
