// The watch's Xids: from both sources, told once, silent where they follow from what we did.
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "health/checks/kernel/kernel_watch.h"
#include "health/checks/kernel/kernel_watch_parts.h"

namespace muster {

namespace {

// A second source tells of the same event within milliseconds; findings are due within two seconds.
constexpr SinceBoot line_wait = std::chrono::seconds(1);
constexpr std::size_t held_max = 64;
// We note a kill before we send it, but by another clock than the log's.
constexpr SinceBoot kill_slack = std::chrono::seconds(2);
constexpr std::size_t links_max = 1024;
constexpr std::size_t evidence_max = 4;

constexpr int nvlink_error = 74;
constexpr int channel_removal = 45;
constexpr int action_changed = 154;
// What a GPU logs when its processes die in the middle of their work.
constexpr std::array xids_of_kills{13, 31, 43, channel_removal};

std::string xid_key(const std::string& address, int xid) {
  return "gpu.xid " + address + " " + std::to_string(xid);
}

}  // namespace

struct KernelWatch::Xid {
  std::string address;
  int code = 0;
  SinceBoot at{};
  std::string_view rest;  // behind the code; empty: from an event
  std::string line;
  std::string_view source = "kmsg";
};

void KernelWatch::feed_xid(const XidLine& line, std::string_view text, SinceBoot at,
                           KernelEvents& out) {
  std::erase_if(state_.held, [&](const HeldXid& held) {
    return held.address == line.address && held.xid == line.xid;
  });
  judge_xid({line.address, line.xid, at, line.rest, printable(text, line_shown_max)}, out);
}

KernelEvents KernelWatch::on_xid_event(std::string_view address, int code, SinceBoot at) {
  const HeldXid event{normal_or_same(address), code, at};
  const auto known = state_.seen.find(xid_key(event.address, code));
  if (known != state_.seen.end() && is_near(known->second.at, at)) {
    ++known->second.repeats;
    return {};
  }
  state_.held.push_back(event);
  // Without the log no line will come; too many at once are not worth the wait.
  const bool waits = state_.sequence && state_.held.size() <= held_max;
  return waits ? KernelEvents{} : tick(at + line_wait);
}

KernelEvents KernelWatch::tick(SinceBoot now) {
  KernelEvents out;
  const auto due = std::ranges::stable_partition(
      state_.held, [&](const HeldXid& held) { return now - held.at < line_wait; });
  const std::vector<HeldXid> events(due.begin(), due.end());
  state_.held.erase(due.begin(), due.end());
  for (const HeldXid& event : events) {
    Xid xid{event.address, event.xid, event.at, {}, {}, "nvmlEventSetWait"};
    xid.line = "Xid " + std::to_string(event.xid) + " of " + event.address + " at " +
               std::to_string(event.at.count()) + " us, without a line in the log";
    judge_xid(xid, out);
  }
  return out;
}

void KernelWatch::judge_xid(const Xid& xid, KernelEvents& out) {
  if (names_.skipped.contains(xid.address)) return;
  if (xid.code == action_changed)
    return judge_driver_action(xid, parse_driver_action(xid.rest), out);
  XidVerdict verdict = verdict_of_xid(xid.code);
  const bool is_reported = !is_silent(xid, verdict);
  if (is_reported) verdict = final_verdict(xid);
  if (xid.code != channel_removal) keep_time(state_.faults, xid.address, xid.at);
  const int weight = is_reported ? weight_of(verdict.severity) : 0;
  const auto left_out = news(xid_key(xid.address, xid.code), weight, xid.at);
  if (!left_out || !is_reported) return;
  if (verdict.resets_at_epilog && state_.resets_at_epilog.size() < watched_devices_max) {
    state_.resets_at_epilog.insert(xid.address);
  }
  HealthFinding finding =
      failure_of("gpu.xid", device_of(xid.address), verdict.severity, verdict.fault_class,
                 std::to_string(xid.code), evidence_of(xid.line, *left_out));
  finding.source = xid.source;
  raise({xid.at, {}, xid.address, std::move(finding)}, xid.address, out);
}

// The driver's own verdict first, then the line's details, then the table.
XidVerdict KernelWatch::final_verdict(const Xid& xid) {
  XidVerdict verdict = verdict_of_xid(xid.code, is_nvlink_fault_fatal(xid.rest));
  if (xid.code == channel_removal) {
    verdict = {XidAction::act, only_warn, FaultClass::node, false};
  }
  const auto link = xid.code == nvlink_error ? parse_nvlink_number(xid.rest) : std::nullopt;
  if (link) {
    const std::string key = xid.address + " " + std::to_string(*link);
    const bool has_room = state_.nvlink_faults.size() < links_max;
    if (news("nvlink " + key, 0, xid.at) && (has_room || state_.nvlink_faults.contains(key))) {
      ++state_.nvlink_faults[key];
    }
    const auto faults = state_.nvlink_faults.find(key);
    const bool is_again = faults != state_.nvlink_faults.end() && faults->second > 1;
    if (is_again) verdict.severity.remedy = Remedy::rma;
  }
  const auto stated = state_.actions.find(xid.address);
  const bool is_stated = stated != state_.actions.end() && is_near(stated->second.at, xid.at);
  if (is_stated && verdict.severity.remedy != Remedy::warn) {
    verdict = verdict_of(stated->second.action);
  }
  return verdict;
}

// What the GPU's reset ended, nobody watched and calls for nothing, follows from what we did or
// from another one, or the table ignores.
bool KernelWatch::is_silent(const Xid& xid, const XidVerdict& verdict) const {
  if (is_reset_since(xid.address, xid.at) || is_from_kill(xid)) return true;
  const bool is_change = xid.code == action_changed;
  const bool calls_for_nothing = verdict.severity.remedy == Remedy::warn && !is_change;
  if (is_history(xid.at) && calls_for_nothing) return true;
  if (xid.code == channel_removal) return follows_a_fault(xid);
  return verdict_of_xid(xid.code).action == XidAction::ignore;
}

bool KernelWatch::is_from_kill(const Xid& xid) const {
  if (std::ranges::find(xids_of_kills, xid.code) == xids_of_kills.end()) return false;
  const auto is_after = [&](const std::string& address) {
    const auto kill = state_.kills.find(address);
    if (kill == state_.kills.end()) return false;
    return xid.at >= kill->second - kill_slack && xid.at <= kill->second + one_minute;
  };
  return is_after(xid.address) || is_after("");
}

bool KernelWatch::follows_a_fault(const Xid& xid) const {
  const auto fault = state_.faults.find(xid.address);
  const bool is_just_after = fault != state_.faults.end() && is_near(fault->second, xid.at);
  return is_just_after || xid.rest.find("caused by previous Xid") != xid.rest.npos;
}

// Of those that ask for a reset later, the GPU's latest.
std::optional<int> KernelWatch::xid_before_reset(const std::string& address) const {
  const std::string begin = "gpu.xid " + address + " ";
  std::optional<int> latest;
  SinceBoot latest_at{};
  for (auto at = state_.seen.lower_bound(begin); at != state_.seen.end(); ++at) {
    if (!at->first.starts_with(begin)) break;
    int xid = 0;
    std::from_chars(at->first.data() + begin.size(), at->first.data() + at->first.size(), xid);
    if (!verdict_of_xid(xid).resets_at_epilog || (latest && at->second.at < latest_at)) continue;
    latest = xid;
    latest_at = at->second.at;
  }
  return latest;
}

// While the job ran it was told as what calls for nothing yet.
KernelEvents KernelWatch::on_jobs_over(SinceBoot at) {
  KernelEvents out;
  for (const std::string& address : std::exchange(state_.resets_at_epilog, {})) {
    const auto xid = xid_before_reset(address);
    raise({at,
           {},
           address,
           failure_of("gpu.xid", device_of(address), {Remedy::reset, {}, false}, FaultClass::node,
                      xid ? std::to_string(*xid) : "an earlier one",
                      {"what it repaired takes effect with a reset; its job has ended"})},
          address, out);
  }
  return out;
}

KernelEvents KernelWatch::on_driver_action(std::string_view address, DriverAction action,
                                           SinceBoot at) {
  KernelEvents out;
  Xid xid{normal_or_same(address), action_changed, at, {}, {}, "nvmlEventSetWait"};
  if (names_.skipped.contains(xid.address)) return out;
  xid.line = "recovery action of " + xid.address + ": " + std::string(words_of(action));
  judge_driver_action(xid, action, out);
  return out;
}

void KernelWatch::judge_driver_action(const Xid& xid, std::optional<DriverAction> action,
                                      KernelEvents& out) {
  const XidVerdict verdict = action ? verdict_of(*action) : verdict_of_xid(xid.code);
  const bool is_reported = !is_silent(xid, verdict);
  const auto known = state_.actions.find(xid.address);
  const DriverAction before =
      known == state_.actions.end() ? DriverAction::none : known->second.action;
  const bool is_change = action && *action != before;
  const std::string key = xid_key(xid.address, xid.code);
  if (is_change) forget(key);
  if (!news(key, action ? 1 : 0, xid.at) || !is_reported) return;
  HealthFinding finding =
      failure_of("gpu.recovery_action", device_of(xid.address), verdict.severity,
                 verdict.fault_class, std::string(action ? words_of(*action) : ""), {xid.line});
  finding.source = xid.source;
  // The event says that it changed, not to what.
  if (!action) finding.status = CheckStatus::unknown;
  if (action == DriverAction::none) finding.status = CheckStatus::pass;
  out.findings.push_back(std::move(finding));
  if (!action) return;
  state_.actions.erase(xid.address);
  if (*action == DriverAction::none && wants_reset(before)) {
    on_reset(xid.address, xid.at);
    out.resets.push_back(device_of(xid.address));
  }
  if (*action == DriverAction::none) return;
  make_room(state_.actions, watched_devices_max, [](const StatedAction& one) { return one.at; });
  const StatedAction stated{xid.at, *action, xid.line};
  state_.actions.emplace(xid.address, stated);
  override_by(stated, xid.address, out);
}

bool KernelWatch::on_no_action(std::string_view address, SinceBoot at) {
  const std::string gpu = normal_or_same(address);
  const auto stated = state_.actions.find(gpu);
  const bool had_it = stated != state_.actions.end() && wants_reset(stated->second.action) &&
                      at - stated->second.at > one_minute;
  if (had_it) on_reset(gpu, at);
  return had_it;
}

// The Xid that made the driver ask was told by the table: it is told again as the driver has it.
void KernelWatch::override_by(const StatedAction& stated, const std::string& address,
                              KernelEvents& out) {
  const auto told = state_.standing.find("gpu.xid " + address);
  if (told == state_.standing.end() || !is_near(told->second.at, stated.at)) return;
  HealthFinding& finding = told->second.finding;
  const XidVerdict verdict = verdict_of(stated.action);
  if (finding.severity == verdict.severity) return;
  finding.severity = verdict.severity;
  finding.fault_class = verdict.fault_class;
  if (finding.evidence.size() < evidence_max) finding.evidence.push_back(stated.line);
  out.findings.push_back(finding);
}

}  // namespace muster
