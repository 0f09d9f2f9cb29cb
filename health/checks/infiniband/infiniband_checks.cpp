#include "health/checks/infiniband/infiniband_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "health/checks/infiniband/port.h"

namespace muster {

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Many times what condemns a link; the oldest go first.
constexpr std::size_t downs_max = 64;
// More devices than any node has.
constexpr std::size_t flapping_devices_max = 256;

std::optional<std::string> device_at(const SourceFiles& files, std::string_view address) {
  for (const InfinibandPort& port : find_ports(files)) {
    if (pci_address(files, port.device) == address) return port.device;
  }
  return std::nullopt;
}

hours limit_in_hours(const CheckInput& input, std::string_view name) {
  return hours(std::lround(std::clamp(input.limit(name), 1.0, 24.0 * 30)));
}

// The most within any window of them: a link that was condemned stays so until it was clean.
std::size_t most_within(std::span<const milliseconds> downs, milliseconds window) {
  std::size_t most = 0;
  for (std::size_t first = 0, last = 0; last < downs.size(); ++last) {
    while (downs[last] - downs[first] >= window) ++first;
    most = std::max(most, last - first + 1);
  }
  return most;
}

// Those since the latest clean time.
std::span<const milliseconds> since_clean(std::span<const milliseconds> downs, milliseconds clean) {
  std::size_t first = 0;
  for (std::size_t at = 1; at < downs.size(); ++at) {
    if (downs[at] - downs[at - 1] >= clean) first = at;
  }
  return downs.subspan(first);
}

// "mlx5_3"; empty: the file belongs to no device.
std::string_view device_of(std::string_view path) {
  const std::string_view root = infiniband_root;
  if (path.size() <= root.size() + 1 || !path.starts_with(root) || path[root.size()] != '/')
    return {};
  path.remove_prefix(root.size() + 1);
  return path.substr(0, path.find('/'));
}

bool tells_devices(std::string_view path) {
  return std::ranges::any_of(infiniband_device_sources(),
                             [&](std::string_view source) { return covers(source, path); });
}

}  // namespace

std::span<const CheckSpec> infiniband_checks() {
  static const std::vector<CheckSpec> all =
      joined_rows({infiniband_device_checks(), infiniband_counter_checks()});
  return all;
}

std::vector<InfinibandPort> first_ports(const std::vector<InfinibandPort>& ports) {
  std::vector<InfinibandPort> first;
  for (const InfinibandPort& port : ports) {
    if (first.empty() || first.back().device != port.device) first.push_back(port);
  }
  return first;
}

std::vector<HealthFinding> judge_infiniband(const InfinibandFacts& facts,
                                            const HealthProfile& profile) {
  const InfinibandLook look{facts, judged_ports(facts.files, profile, facts.refusing)};
  CheckInput input{facts.files, profile};
  input.ib = &look;
  std::vector<HealthFinding> findings;
  for (const CheckSpec& check : infiniband_checks()) {
    const bool is_read = check.group == SourceGroup::infiniband_counters
                             ? facts.has_counters
                             : !facts.is_of_links || has(check.phases, Phase::periodic);
    if (!is_read || !check.judge) continue;
    input.spec = &check;
    append_findings(findings, check.judge(input));
  }
  return findings;
}

HealthFinding port_finding(const CheckInput& input, const InfinibandPort& port,
                           std::string_view leaf, std::string expected) {
  HealthFinding finding = device_finding(input, port, leaf, std::move(expected));
  finding.device = port.name();
  finding.source = port.path(leaf);
  return finding;
}

HealthFinding device_finding(const CheckInput& input, const InfinibandPort& port,
                             std::string_view leaf, std::string expected) {
  HealthFinding finding =
      make_finding(input.check(), port.device, CheckStatus::pass, {}, std::move(expected));
  finding.serial = port.guid;
  finding.source = infiniband_device_path(port.device, leaf);
  return finding;
}

HealthFinding as_unknown(HealthFinding finding, std::string why) {
  finding.status = CheckStatus::unknown;
  finding.evidence.push_back(std::move(why));
  return finding;
}

HealthFinding as_unreadable(HealthFinding finding, const FileReading& reading) {
  std::string why = finding.source + ": " + reading.error;
  return as_unknown(std::move(finding), std::move(why));
}

HealthFinding as_not_understood(HealthFinding finding, std::string_view text) {
  std::string why = finding.source + ": not understood: " + shown_text(text);
  return as_unknown(std::move(finding), std::move(why));
}

HealthFinding as_failed(HealthFinding finding, CheckSeverity severity) {
  finding.severity = severity;
  return as_failed(std::move(finding));
}

HealthFinding as_failed(HealthFinding finding) {
  finding.status = CheckStatus::fail;
  return finding;
}

HealthFinding with_grace(HealthFinding finding, const CheckInput& input) {
  const auto uptime = uptime_of(input.files);
  const auto grace = link_grace(input.profile, input.check().id);
  if (finding.status != CheckStatus::fail || !uptime || *uptime >= grace) return finding;
  return as_unknown(std::move(finding), "booted " + std::to_string(uptime->count()) +
                                            " s ago: links are judged from " +
                                            std::to_string(grace.count()) + " s on");
}

std::string shown_number(double value) {
  char text[48];
  const bool is_whole = std::abs(value - std::round(value)) < 0.005 || std::abs(value) >= 1000;
  std::snprintf(text, sizeof text, is_whole ? "%.0f" : "%.2f", value);
  return text;
}

LinkFlaps::LinkFlaps(const std::vector<LinkFlapTrack>& state) {
  for (const LinkFlapTrack& saved : state) {
    const bool is_one = !saved.downs.empty() && saved.downs.size() <= downs_max &&
                        saved.downs.front().count() >= 0 && std::ranges::is_sorted(saved.downs);
    if (is_one && tracks_.size() < flapping_devices_max) tracks_[saved.device] = saved;
  }
}

void LinkFlaps::observe_down(std::string_view pci_address, const SourceFiles& files,
                             const HealthProfile& profile, milliseconds at,
                             std::chrono::seconds since_boot) {
  if (since_boot < link_grace(profile, "ib.flap") || at.count() < 0) return;
  const auto device = device_at(files, pci_address);
  if (!device || (tracks_.size() >= flapping_devices_max && !tracks_.contains(*device))) return;
  LinkFlapTrack& track = tracks_[*device];
  track.device = *device;
  auto& downs = track.downs;
  // After a clock was set back nothing is known of the time between.
  if (!downs.empty() && at < downs.back()) downs.clear();
  downs.push_back(at);
  if (downs.size() > downs_max) downs.erase(downs.begin());
}

HealthFinding LinkFlaps::judge_port(const CheckInput& input, const InfinibandPort& port,
                                    milliseconds now) const {
  const hours window = limit_in_hours(input, "window_h");
  const double fewer_than = input.limit("drain_per_window");
  HealthFinding finding = port_finding(input, port, "", "< " + shown_number(fewer_than));
  finding.source = "kmsg";
  finding.unit = "1/" + std::to_string(window.count()) + " h";
  finding.value = "0";
  const auto found = tracks_.find(port.device);
  if (found == tracks_.end() || found->second.downs.empty()) return finding;
  const LinkFlapTrack& track = found->second;
  const milliseconds last = track.downs.back();
  const hours clean = limit_in_hours(input, "clean_h");
  if (now - last >= clean) return finding;
  const auto most = static_cast<double>(most_within(since_clean(track.downs, clean), window));
  finding.value = shown_number(most);
  if (most < fewer_than) return finding;
  const auto ago = std::chrono::duration_cast<std::chrono::minutes>(now - last);
  finding.evidence.push_back("went down last " + std::to_string(ago.count()) +
                             " min ago; clear after " + std::to_string(clean.count()) +
                             " h without");
  return as_failed(std::move(finding));
}

std::vector<HealthFinding> LinkFlaps::judge(const CheckInput& input) const {
  const std::string& log_error = input.ib->facts.log_error;
  std::vector<HealthFinding> findings;
  for (const InfinibandPort& port : input.ib->ports) {
    if (!is_judged(input.profile, input.check().id, port)) continue;
    HealthFinding finding = judge_port(input, port, input.ib->facts.now);
    if (finding.status == CheckStatus::pass && !log_error.empty())
      finding = as_unknown(std::move(finding), "kmsg: " + log_error);
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<LinkFlapTrack> LinkFlaps::state() const {
  std::vector<LinkFlapTrack> state;
  for (const auto& [device, track] : tracks_) state.push_back(track);
  return state;
}

void KnownDevices::remember(const SourceFiles& files) {
  forget();
  for (const auto& [path, reading] : files.all()) {
    if (!tells_devices(path) || reading.is_missing) continue;
    if (!reading.ok()) return forget();
    files_.add(path, reading);
  }
  if (find_ports(files_).empty()) forget();  // one that comes would not be seen
}

bool KnownDevices::has(std::string_view device) const {
  return !files_.names_below(infiniband_device_path(device, "ports")).empty();
}

std::vector<std::string> KnownDevices::link_sources() const {
  constexpr std::string_view any_port = "/ports/*/";
  std::set<std::string> numbers;
  for (const InfinibandPort& port : find_ports(files_)) numbers.insert(port.number);
  std::vector<std::string> sources;
  for (const std::string_view source : infiniband_link_sources()) {
    const std::size_t at = source.find(any_port);
    for (const std::string& number : numbers) {
      sources.push_back(std::string(source.substr(0, at)) + "/ports/" + number + "/" +
                        std::string(source.substr(at + any_port.size())));
    }
  }
  return sources;
}

SourceFiles KnownDevices::with_links(const SourceFiles& links) {
  SourceFiles files;
  bool is_any_new = false;
  for (const auto& [path, reading] : links.all()) {
    const std::string_view device = device_of(path);
    if (device.empty() || has(device)) {
      // Of ports that another device has.
      if (device.empty() || !reading.is_missing) files.add(path, reading);
    } else {
      is_any_new = true;
    }
  }
  const std::vector<std::string> present = links.names_below(infiniband_root);
  for (const auto& [path, reading] : files_.all()) {
    const std::string_view device = device_of(path);
    const bool is_kept = device.empty() || std::ranges::find(present, device) != present.end();
    if (is_kept && !files.all().contains(path)) files.add(path, reading);
  }
  if (is_any_new) forget();
  return files;
}

}  // namespace muster
