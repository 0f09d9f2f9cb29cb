#include "health/monitor/node_monitor.h"

#include <algorithm>
#include <utility>

#include "health/model/check.h"
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

}  // namespace muster
