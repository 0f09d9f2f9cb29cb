#include "health/monitor/node_monitor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "health/checks/host/host_checks.h"
#include "health/checks/host/processes.h"
#include "health/checks/infiniband/infiniband_checks.h"
#include "health/checks/infiniband/port.h"
#include "health/model/check.h"
#include "health/model/finding.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

// The first readings name the devices within seconds, unless their driver hangs.
constexpr SinceBoot naming_time = std::chrono::seconds(30);
constexpr std::size_t waiting_max = 256;
constexpr std::size_t unnamed_links_max = 64;
constexpr std::size_t refusing_max = 64;
constexpr std::size_t boots_max = 64;
// What a restart forgets of a counter is at most this much of where a window began.
constexpr std::chrono::milliseconds saved_spacing = std::chrono::minutes(5);
// 16 GPUs of 18 links tell some 150 KiB.
constexpr std::size_t saved_look_max = 512 << 10;

bool is_address(const std::string& device) {
  return normal_pci_address(device) == device;
}

template <class T>
void push_bounded(std::vector<T>& all, T one, std::size_t limit) {
  all.push_back(std::move(one));
  if (all.size() > limit) all.erase(all.begin());
}

// After a boot counters begin anew; boards are still known.
GpuReadings identity_of(const GpuReadings& readings) {
  GpuReadings identity;
  const auto keep = [&](const std::string& key) {
    if (const GpuReading* reading = readings.find(key)) identity.add(key, *reading);
  };
  keep("count");
  for (const std::string& device : readings.devices()) {
    for (const char* key : {"uuid", "serial", "bdf"}) keep(device + "." + key);
  }
  return identity;
}

CounterTrack thinned(const CounterTrack& track) {
  CounterTrack thin{track.key, {}};
  for (const CounterSample& sample : track.samples) {
    const bool is_kept = thin.samples.empty() || &sample == &track.samples.back() ||
                         sample.at - thin.samples.back().at >= saved_spacing;
    if (is_kept) thin.samples.push_back(sample);
  }
  return thin;
}

// More functions than any node has.
constexpr std::size_t named_devices_max = 1024;

// Without names of ports in the profile those of the fabric are.
std::set<std::string> judged_devices(const SourceFiles& files, const HealthProfile& profile,
                                     const std::vector<InfinibandPort>& ports) {
  std::set<std::string> devices;
  if (!profile.ib.ports.empty()) {
    for (const InfinibandPort& port : judged_ports(files, profile)) devices.insert(port.device);
    return devices;
  }
  for (const InfinibandPort& port : ports) {
    const bool is_of_fabric =
        !is_virtual_function(files, port.device) && !is_management_device(files, port.device);
    if (is_of_fabric) devices.insert(port.device);
  }
  return devices;
}

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

NodeMonitor::NodeMonitor(HealthProfile profile, MonitorOptions options, MonitorMemory saved)
    : profile_(std::move(profile)),
      options_(std::move(options)),
      boot_id_(std::move(saved.boot_id)),
      names_(std::move(saved.gpu_names), std::move(saved.hca_names),
             {saved.skipped.begin(), saved.skipped.end()}),
      kernel_(names_.pci(), std::move(saved.kernel)),
      counters_(saved.counters),
      flaps_(saved.flaps),
      edac_(std::move(saved.edac)),
      boots_(std::move(saved.boots)),
      refusing_(std::move(saved.refusing)) {
  if (saved.look_readings.empty()) return;
  look_ = GpuLook{parse_gpu_readings(saved.look_readings), {}, saved.look_at};
  for (auto& [path, text] : saved.look_files) look_->files.add(path, std::move(text));
}

void NodeMonitor::begin(const std::string& boot_id, const CheckMoment& now) {
  kernel_.begin(boot_id, now.since_boot);
  began_ = now.since_boot;
  is_settled_ = names_.has_gpus() && names_.has_hcas() && boot_id == boot_id_;
  if (boots_.empty() || boots_.back().boot_id != boot_id)
    push_bounded(boots_, BootSeen{boot_id, now.wall}, boots_max);
  if (boot_id == boot_id_) return;
  boot_id_ = boot_id;
  names_.boot();
  edac_.clear();
  refusing_.clear();
  if (look_) look_ = GpuLook{identity_of(look_->readings), {}, {}};
}

NodeMonitor::Findings NodeMonitor::on_kernel_lines(std::span<const KernelLine> lines,
                                                   const CheckMoment& now) {
  return collect(kernel_.feed(lines), now);
}

NodeMonitor::Findings NodeMonitor::on_gpu_events(std::span<const GpuEvent> events,
                                                 const CheckMoment& now) {
  Findings found;
  for (const GpuEvent& event : events) {
    // Of which GPU the log says, where it can be read.
    if (!event.gpu && kernel_.state().sequence) continue;
    const std::string device = event.gpu ? "gpu" + std::to_string(*event.gpu) : std::string();
    const std::string address = names_.address_of(device).value_or(device);
    is_look_wanted_ = is_look_wanted_ || event.type != gpu_event_xid;
    if (event.type == gpu_event_xid) {
      const auto xid = static_cast<int>(std::min<std::uint64_t>(event.data, 999));
      append_findings(found, collect(kernel_.on_xid_event(address, xid, now.since_boot), now));
    } else if (event.type == gpu_event_recovery_action) {
      const auto action = static_cast<DriverAction>(std::min<std::uint64_t>(event.data, 255));
      append_findings(found,
                      collect(kernel_.on_driver_action(address, action, now.since_boot), now));
    }
  }
  return found;
}

NodeMonitor::Findings NodeMonitor::tick(const CheckMoment& now) {
  if (now.since_boot - began_ >= naming_time) is_settled_ = true;
  Findings found = collect(kernel_.tick(now.since_boot), now);
  if (!is_settled_) return found;
  Findings told = std::exchange(waiting_, {});
  const PciNames names = told.empty() ? PciNames() : names_.pci();
  for (HealthFinding& finding : told) {
    if (names.skipped.contains(finding.device)) continue;
    const auto named = names.names.find(finding.device);
    if (named != names.names.end()) finding.device = named->second;
    found.push_back(std::move(finding));
  }
  return found;
}

void NodeMonitor::on_kill(std::span<const std::string> gpus, const CheckMoment& now) {
  std::vector<std::string> addresses;
  for (const std::string& gpu : gpus) addresses.push_back(names_.address_of(gpu).value_or(gpu));
  kernel_.on_kill(addresses, now.since_boot);
}

void NodeMonitor::on_reset(const std::string& gpu, const CheckMoment& now) {
  kernel_.on_reset(names_.address_of(gpu).value_or(gpu), now.since_boot);
}

NodeMonitor::Findings NodeMonitor::on_job_death(const CheckMoment& now) {
  return collect(kernel_.on_job_death(now.since_boot), now);
}

NodeMonitor::Findings NodeMonitor::on_jobs_over(const CheckMoment& now) {
  if (kernel_.resets_at_epilog().empty()) return {};
  return collect(kernel_.on_jobs_over(now.since_boot), now);
}

bool NodeMonitor::take_look_wanted() {
  return std::exchange(is_look_wanted_, false);
}

std::vector<std::string> NodeMonitor::resets_at_epilog() const {
  std::vector<std::string> gpus;
  for (const std::string& address : kernel_.resets_at_epilog()) {
    const auto named = names_.gpus().find(address);
    gpus.push_back(named == names_.gpus().end() ? address : named->second);
  }
  return gpus;
}

NodeMonitor::Findings NodeMonitor::collect(KernelEvents events, const CheckMoment& now) {
  Findings told;
  for (std::string& gpu : events.resets) {
    events.findings.push_back(
        make_finding(*find_check("gpu.reset"), std::move(gpu), CheckStatus::pass, "reset"));
  }
  for (HealthFinding& finding : events.findings) {
    const bool is_of_driver =
        finding.check.starts_with("gpu.") && finding.severity.remedy >= Remedy::drain;
    is_look_wanted_ = is_look_wanted_ || is_of_driver;
    if (!is_settled_ && is_address(finding.device)) {
      push_bounded(waiting_, std::move(finding), waiting_max);
    } else {
      told.push_back(std::move(finding));
    }
  }
  for (const LinkChange& change : events.links) count_link(change, now);
  for (std::string& device : events.refused_registers) {
    const bool is_known = std::ranges::find(refusing_, device) != refusing_.end();
    if (!is_known) push_bounded(refusing_, std::move(device), refusing_max);
  }
  return told;
}

void NodeMonitor::count_link(const LinkChange& change, const CheckMoment& now) {
  sound_links_.reset();
  const auto address = is_address(change.device) ? change.device : names_.address_of(change.device);
  if (!address) return;
  if (!names_.hcas().contains(*address)) {
    if (!is_settled_) push_bounded(unnamed_links_, change, unnamed_links_max);
    return;
  }
  using std::chrono::duration_cast;
  const auto ago = duration_cast<std::chrono::milliseconds>(now.since_boot - change.at);
  if (change.is_up) return;  // its going down was the flap
  flaps_.observe_down(*address, names_.hca_files(), profile_, now.wall.time_since_epoch() - ago,
                      duration_cast<std::chrono::seconds>(change.at));
}

void NodeMonitor::names_changed() {
  const PciNames names = names_.pci();
  kernel_.set_names(names);
  for (std::string& device : refusing_) {
    const auto named = names.names.find(device);
    if (named != names.names.end()) device = named->second;
  }
}

MonitorMemory NodeMonitor::memory() const {
  MonitorMemory memory;
  memory.boot_id = boot_id_;
  memory.gpu_names = names_.gpus();
  memory.hca_names = names_.hcas();
  memory.skipped.assign(names_.skipped().begin(), names_.skipped().end());
  memory.refusing = refusing_;
  memory.kernel = kernel_.state();
  for (const CounterTrack& track : counters_.state()) {
    if (track.key.owner == boot_id_) memory.counters.push_back(thinned(track));
  }
  memory.flaps = flaps_.state();
  memory.edac = edac_;
  memory.boots = boots_;
  if (!look_) return memory;
  memory.look_at = look_->at;
  memory.look_readings = write_gpu_readings(look_->readings);
  if (memory.look_readings.size() > saved_look_max)
    memory.look_readings = write_gpu_readings(identity_of(look_->readings));
  for (const auto& [path, reading] : look_->files.all()) memory.look_files[path] = reading.text;
  return memory;
}

DeviceNames::DeviceNames(std::map<std::string, std::string> gpus,
                         std::map<std::string, std::string> hcas,
                         std::set<std::string, std::less<>> skipped)
    : gpus_(std::move(gpus)), hcas_(std::move(hcas)), skipped_(std::move(skipped)) {}

void DeviceNames::boot() {
  are_gpus_fresh_ = false;
  are_hcas_fresh_ = false;
}

// While the host is up a GPU that is gone would shift the names of those behind it.
bool DeviceNames::take_gpus(const GpuReadings& readings) {
  std::map<std::string, std::string> found;
  for (const std::string& device : readings.devices()) {
    const auto address = readings.text(device + ".bdf");
    const auto normal = address ? normal_pci_address(*address) : std::nullopt;
    if (normal) found[*normal] = device;
  }
  if (found.empty() || (are_gpus_fresh_ && found.size() < gpus_.size())) return false;
  are_gpus_fresh_ = true;
  const bool is_new = found != gpus_;
  gpus_ = std::move(found);
  return is_new;
}

bool DeviceNames::take_hcas(const SourceFiles& files, const HealthProfile& profile) {
  const auto before = hcas_;
  const auto skipped_before = skipped_;
  const auto ports = find_ports(files);
  if (!ports.empty() && !are_hcas_fresh_) {
    hcas_.clear();
    skipped_.clear();
    are_hcas_fresh_ = true;
  }
  const auto judged = judged_devices(files, profile, ports);
  for (const InfinibandPort& port : ports) {
    const auto address = pci_address(files, port.device);
    if (!address || hcas_.size() >= named_devices_max) continue;
    hcas_[*address] = port.device;
    if (judged.contains(port.device)) {
      skipped_.erase(*address);
    } else {
      skipped_.insert(*address);
    }
  }
  return hcas_ != before || skipped_ != skipped_before;
}

PciNames DeviceNames::pci() const {
  PciNames names;
  names.names.insert(gpus_.begin(), gpus_.end());
  names.names.insert(hcas_.begin(), hcas_.end());
  names.skipped = skipped_;
  return names;
}

std::optional<std::string> DeviceNames::address_of(std::string_view device) const {
  for (const auto* names : {&gpus_, &hcas_}) {
    const auto found = std::ranges::find(
        *names, device, [](const auto& one) -> std::string_view { return one.second; });
    if (found != names->end()) return found->first;
  }
  return std::nullopt;
}

SourceFiles DeviceNames::hca_files() const {
  SourceFiles files;
  for (const auto& [address, device] : hcas_) {
    files.add(infiniband_device_path(device, "device/uevent"), "PCI_SLOT_NAME=" + address + "\n");
    files.add(infiniband_device_path(device, "ports/1/state"), std::string());
  }
  return files;
}

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
