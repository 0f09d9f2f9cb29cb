#include "health/checks/infiniband/link_flaps.h"

#include <algorithm>
#include <cmath>

#include "health/checks/infiniband/infiniband_checks.h"

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

}  // namespace

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

}  // namespace muster
