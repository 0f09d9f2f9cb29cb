// What was read at one time, judged with what the monitor remembers.
#include <algorithm>
#include <utility>

#include "health/checks/host/host_checks.h"
#include "health/checks/host/processes.h"
#include "health/checks/infiniband/counter_checks.h"
#include "health/checks/infiniband/infiniband_checks.h"
#include "health/checks/infiniband/sources.h"
#include "health/model/check.h"
#include "health/model/finding.h"
#include "health/monitor/node_monitor.h"

namespace muster {

namespace {

// Corrected memory errors are judged by the day.
constexpr Milliseconds edac_day = std::chrono::hours(24);
constexpr Milliseconds edac_spacing = std::chrono::hours(1);

bool started_again(const EdacSample& before, const EdacSample& now) {
  return std::ranges::any_of(now.by_controller, [&](const auto& one) {
    const auto earlier = before.by_controller.find(one.first);
    return earlier != before.by_controller.end() && counts_anew(earlier->second, one.second);
  });
}

// Of the files of a look those that the next one compares with.
SourceFiles compared_files(const SourceFiles& files) {
  SourceFiles kept;
  for (const auto& [path, reading] : files.all()) {
    if (path.find("/aer_dev_") != path.npos && reading.ok()) kept.add(path, reading);
  }
  return kept;
}

// What a GPU that does not answer any more was: its board and place.
void keep_silent_gpus(GpuReadings& now, const GpuReadings& before) {
  for (const std::string& device : now.devices()) {
    const std::string prefix = device + ".";
    if (now.text(prefix + "uuid")) continue;
    const auto& all = before.all();
    for (auto at = all.lower_bound(prefix); at != all.end(); ++at) {
      if (!at->first.starts_with(prefix)) break;
      if (at->second.rc == 0) now.add(at->first, at->second);
    }
  }
}

}  // namespace

NodeMonitor::Findings NodeMonitor::look_at_gpus(const GpuReadings& readings,
                                                const SourceFiles& files,
                                                const CheckSituation& situation,
                                                const CheckMoment& now) {
  std::optional<GpuBefore> before;
  if (look_) before.emplace(GpuBefore{look_->readings, look_->files, now.since_boot - look_->at});
  GpuSituation gpus{readings, files, profile_};
  gpus.before = before ? &*before : nullptr;
  gpus.is_idle = situation.is_idle;
  gpus.rank_environment = situation.rank_environment;
  Findings found = judge_gpus(gpus);
  if (names_.take_gpus(readings)) names_changed();
  append_findings(found, resets_between_looks(readings, now));
  if (names_.has_hcas() || profile_.ib.ports.empty()) is_settled_ = true;
  remember_look(readings, files, now.since_boot);
  return found;
}

// The driver wanted a reset and does not any more, or rows that waited for one are remapped; nobody
// may have logged or told that.
NodeMonitor::Findings NodeMonitor::resets_between_looks(const GpuReadings& readings,
                                                        const CheckMoment& now) {
  Findings resets;
  for (const std::string& gpu : readings.devices()) {
    const auto before = [&](const std::string& key) {
      return look_ ? look_->readings.number(key) : std::nullopt;
    };
    const std::string uuid = gpu + ".uuid";
    const auto is_named = [&](const GpuReadings& one) { return one.text(uuid).value_or(""); };
    if (look_ && is_named(look_->readings) != is_named(readings)) continue;  // another board
    const std::string action = gpu + ".field.230";
    const std::string pending = gpu + ".remap.pending";
    const std::string address = names_.address_of(gpu).value_or(gpu);
    const auto wanted = before(action);
    const bool wants_none = readings.number(action) == 0;
    const bool wanted_one = wanted && wants_reset(static_cast<DriverAction>(*wanted));
    const bool is_remapped = readings.number(pending) == 0 && before(pending).value_or(0) != 0;
    const bool was_logged = wants_none && kernel_.on_no_action(address, now.since_boot);
    const bool is_seen = (wants_none && wanted_one) || is_remapped;
    if (!was_logged && !is_seen) continue;
    if (is_seen) kernel_.on_reset(address, now.since_boot);
    resets.push_back(make_finding(*find_check("gpu.reset"), gpu, CheckStatus::pass, "reset"));
  }
  return resets;
}

void NodeMonitor::remember_look(const GpuReadings& readings, const SourceFiles& files,
                                SinceBoot at) {
  // A look that was cut short has no counters of its last GPUs: the earlier one goes on.
  if (!readings.is_complete() || readings.count() == 0) return;
  GpuLook look{readings, compared_files(files), at};
  if (look_) keep_silent_gpus(look.readings, look_->readings);
  look_ = std::move(look);
}

bool NodeMonitor::reads_links_only(SourceGroups groups, Phase phase) const {
  return phase == Phase::periodic && !hcas_.empty() &&
         !has(groups, SourceGroup::infiniband_counters);
}

NodeMonitor::Findings NodeMonitor::look_at_infiniband(const SourceFiles& read, SourceGroups groups,
                                                      const CheckSituation& situation,
                                                      const CheckMoment& now) {
  const bool has_counters = has(groups, SourceGroup::infiniband_counters);
  if (has_counters) hcas_.remember(read);
  sound_links_.reset();
  const bool is_of_links = reads_links_only(groups, situation.phase);
  const SourceFiles completed = is_of_links ? hcas_.with_links(read) : SourceFiles();
  const SourceFiles& files = is_of_links ? completed : read;
  if (names_.take_hcas(files, profile_)) names_changed();
  if (names_.has_gpus() || profile_.gpu.count.value_or(0) == 0) is_settled_ = true;
  for (const LinkChange& change : std::exchange(unnamed_links_, {})) count_link(change, now);
  const auto wall = now.wall.time_since_epoch();
  if (has_counters)
    note_counters(counters_, files, profile_, judged_ports(files, profile_, refusing_), wall);
  const InfinibandFacts facts{
      files,     counters_,    flaps_,     wall, situation.kernel_log_error, situation.job_runs,
      refusing_, has_counters, is_of_links};
  Findings found = judge_infiniband(facts, profile_);
  const auto passes = [](const HealthFinding& one) { return one.status == CheckStatus::pass; };
  if (is_of_links && std::ranges::all_of(found, passes)) sound_links_ = read;
  return found;
}

bool NodeMonitor::is_same_look(const SourceFiles& links, SourceGroups groups,
                               const CheckSituation& situation) const {
  constexpr auto states = static_cast<SourceGroups>(SourceGroup::infiniband_state);
  return groups == states && reads_links_only(groups, situation.phase) &&
         situation.kernel_log_error.empty() && sound_links_ == links;
}

void NodeMonitor::note_edac(EdacSample sample) {
  if (!sample.error.empty() || sample.boot_id.empty()) return;
  const bool is_other =
      !edac_.empty() && (edac_.back().boot_id != sample.boot_id || sample.at < edac_.back().at ||
                         started_again(edac_.back(), sample));
  if (is_other) edac_.clear();
  std::erase_if(edac_, [&](const EdacSample& one) { return one.at < sample.at - edac_day; });
  if (edac_.empty() || sample.at - edac_.back().at >= edac_spacing)
    edac_.push_back(std::move(sample));
}

NodeMonitor::Findings NodeMonitor::look_at_host(const SourceFiles& files,
                                                const CheckSituation& situation,
                                                const CheckMoment& now) {
  HostSituation host{situation.clock_offset, situation.ended_uids, now.wall, boots_};
  if (!edac_.empty()) host.edac_before = edac_.front();
  host.net = situation.net;
  host.helper = situation.helper;
  CheckInput input{files, profile_};
  input.host = &host;
  note_edac(edac_sample_of(files, now.wall));
  return judge_group(host_checks(), SourceGroup::host, input);
}

NodeMonitor::Findings NodeMonitor::look_at_processes(std::span<const SourceFiles> looks,
                                                     const CheckSituation& situation) const {
  HostSituation host;
  host.ended_uids = situation.ended_uids;
  CheckInput input{looks.front(), profile_};
  input.host = &host;
  const bool is_cut_short = looks.size() < stuck_samples && has_sleeper(looks.front());
  if (!is_cut_short) input.looks = looks;
  input.helper_name = options_.helper_name;
  Findings found = judge_group(host_checks(), SourceGroup::processes, input);
  append_findings(found, judge_group(gpu_checks(), SourceGroup::processes, input));
  return found;
}

NodeMonitor::Findings NodeMonitor::standing(const CheckSituation& situation,
                                            const CheckMoment& now) const {
  return kernel_.standing({situation.kernel_log_error, situation.has_gpu_events}, now.since_boot);
}

std::vector<std::string> NodeMonitor::sources_for(SourceGroups groups, Phase phase) const {
  constexpr auto states = static_cast<SourceGroups>(SourceGroup::infiniband_state);
  const bool is_of_links = (groups & states) != 0 && reads_links_only(groups, phase);
  if (!is_of_links) return without_refused(sources_of(profile_, groups, phase));
  std::vector<std::string> sources = hcas_.link_sources();
  for (std::string& other :
       sources_of(profile_, static_cast<SourceGroups>(groups & ~states), phase)) {
    sources.push_back(std::move(other));
  }
  return sources;
}

std::vector<std::string> NodeMonitor::without_refused(std::vector<std::string> sources) const {
  if (refusing_.empty()) return sources;
  const std::string all = std::string(infiniband_root) + "/*/";
  std::vector<std::string> left;
  for (std::string& source : sources) {
    const bool is_counter = source.starts_with(all) && source.find("counters/") != source.npos;
    if (!is_counter) {
      left.push_back(std::move(source));
      continue;
    }
    for (const auto& [address, device] : names_.hcas()) {
      if (std::ranges::find(refusing_, device) == refusing_.end())
        left.push_back(infiniband_device_path(device, source.substr(all.size())));
    }
  }
  return left;
}

}  // namespace muster
