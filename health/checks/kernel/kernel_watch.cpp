#include "health/checks/kernel/kernel_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "health/checks/kernel/kernel_rules.h"
#include "health/checks/kernel/kernel_watch_parts.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// Of what was logged longer than this before anybody watched, only what nothing but a repair ends
// still counts.
constexpr SinceBoot look_back = std::chrono::minutes(10);
// All records of the boot before are written in one go.
constexpr SinceBoot old_records_take = std::chrono::seconds(1);
// A benign SXid that comes in so many minutes of an hour drains.
constexpr int log_sxids_per_hour = 10;
constexpr std::size_t open_sxids_max = 64;
constexpr std::size_t switches_max = 64;
constexpr std::string_view off_the_bus = "fallen off the bus";

std::optional<std::string> address_of(std::string_view text, const KernelLine& line) {
  auto address = find_pci_address(text);
  return address ? address : find_pci_address(line.device);
}

// The driver writes one sentence in two lines where it names the GPU's identity between them.
bool is_split_fall(std::string_view before, std::string_view text) {
  if (before.empty() || !text.starts_with("NVRM: ")) return false;
  const std::string joined =
      std::string(before) + " " + std::string(text.substr(6, off_the_bus.size()));
  const std::size_t at = joined.find(off_the_bus);
  return at < before.size() && at + off_the_bus.size() > before.size();
}

struct Asked {
  std::string check;
  std::string device;
};

// Checks that nothing but the log answers: only of these the log's silence is a pass.
std::vector<Asked> asked_of(const PciNames& names, const KernelWatchState& state) {
  std::vector<Asked> asked{{"host.hung", ""},
                           {"host.oops", ""},
                           {"host.io", ""},
                           {"host.pcie", ""},
                           {"host.throttle", ""}};
  for (const auto& [address, name] : names.names) {
    if (names.skipped.contains(address)) continue;
    if (name.starts_with("gpu")) {
      asked.push_back({"gpu.xid", name});
      asked.push_back({"gpu.fell_off", name});
    } else if (name.starts_with("mlx5")) {
      asked.push_back({"ib.mlx5_fatal", name});
    }
  }
  // The driver of a GPU that was told by its address gave it no name yet.
  for (const auto& [address, at] : state.resets) {
    if (names.names.contains(address) || names.skipped.contains(address)) continue;
    asked.push_back({"gpu.xid", address});
    asked.push_back({"gpu.fell_off", address});
  }
  for (const std::string& address : state.switches) {
    const auto named = names.names.find(address);
    asked.push_back({"gpu.sxid", named == names.names.end() ? address : named->second});
  }
  return asked;
}

HealthFinding without_failure(const Asked& asked, const WatchSources& sources) {
  HealthFinding finding;
  finding.check = asked.check;
  finding.device = asked.device;
  finding.source = "kmsg";
  finding.status = CheckStatus::pass;
  finding.value = "none";
  finding.expected = "none";
  if (sources.log_error.empty()) return finding;
  if (asked.check == "gpu.xid" && sources.has_xid_events) {
    finding.source = "nvmlEventSetWait";
    return finding;
  }
  finding.status = CheckStatus::unknown;
  finding.value.clear();
  finding.evidence = {"the kernel's log cannot be read: " + sources.log_error};
  return finding;
}

}  // namespace

int weight_of(const CheckSeverity& severity) {
  return static_cast<int>(severity.remedy) + 1 + (severity.stops_job ? 10 : 0);
}

HealthFinding failure_of(std::string_view check, std::string device, CheckSeverity severity,
                         FaultClass fault_class, std::string value,
                         std::vector<std::string> evidence) {
  HealthFinding finding;
  finding.check = check;
  finding.device = std::move(device);
  finding.status = CheckStatus::fail;
  finding.severity = severity;
  finding.fault_class = fault_class;
  finding.value = std::move(value);
  finding.expected = "none";
  finding.source = "kmsg";
  finding.evidence = std::move(evidence);
  return finding;
}

std::vector<std::string> evidence_of(std::string_view line, std::uint64_t left_out) {
  std::vector<std::string> evidence{printable(line, line_shown_max)};
  if (left_out > 0) evidence.push_back("and " + std::to_string(left_out) + " more like it before");
  return evidence;
}

std::string sxid_key(const OpenSxid& sxid) {
  return "gpu.sxid " + sxid.address + " " + std::to_string(sxid.sxid);
}

std::string normal_or_same(std::string_view address) {
  return normal_pci_address(address).value_or(std::string(address));
}

void append(KernelEvents& all, KernelEvents more) {
  // What came before a reset has had it; what a reboot or a repair ends stays.
  std::erase_if(all.findings, [&](const HealthFinding& one) {
    const bool was_reset = std::ranges::find(more.resets, one.device) != more.resets.end();
    return was_reset && one.check.starts_with("gpu.") && one.status == CheckStatus::fail &&
           one.severity.remedy <= Remedy::reset;
  });
  append_findings(all.findings, std::move(more.findings));
  std::ranges::move(more.links, std::back_inserter(all.links));
  std::ranges::move(more.refused_registers, std::back_inserter(all.refused_registers));
  std::ranges::move(more.resets, std::back_inserter(all.resets));
}

KernelWatch::KernelWatch(PciNames names, KernelWatchState saved)
    : names_(std::move(names)), state_(std::move(saved)) {}

void KernelWatch::begin(std::string_view boot_id, SinceBoot now) {
  if (boot_id != state_.boot_id) {
    KernelWatchState fresh;
    fresh.boot_id = boot_id;
    fresh.nvlink_faults = std::move(state_.nvlink_faults);
    fresh.switches = std::move(state_.switches);
    state_ = std::move(fresh);
  }
  if (!state_.sequence) state_.history = std::max(SinceBoot(0), now - look_back);
}

void KernelWatch::set_names(PciNames names) {
  names_ = std::move(names);
  const auto address_of = [](const auto& one) {
    const std::string& check = one.second.finding.check;
    return one.first.starts_with(check + " ") ? one.first.substr(check.size() + 1) : std::string();
  };
  std::erase_if(state_.standing,
                [&](const auto& one) { return names_.skipped.contains(address_of(one)); });
  for (auto& one : state_.standing) {
    const std::string address = address_of(one);
    if (names_.names.contains(address)) one.second.finding.device = device_of(address);
  }
}

bool KernelWatch::is_new(const KernelLine& line) {
  if (!line.sequence) return true;
  const std::uint64_t first = *line.sequence - std::min(line.continued, *line.sequence);
  if (state_.sequence) {
    if (*line.sequence <= *state_.sequence) return false;
    state_.lost_lines += first > *state_.sequence ? first - *state_.sequence - 1 : 0;
  }
  state_.sequence = line.sequence;
  return true;
}

KernelEvents KernelWatch::feed(const KernelLine& line) {
  KernelEvents out;
  if (!is_new(line) || !line.is_from_kernel) return out;
  const SinceBoot at = line.since_boot.value_or(state_.latest);
  state_.latest = std::max(state_.latest, at);
  if (!state_.held.empty()) out = tick(at);
  std::string_view rest = line.text;
  while (!rest.empty()) feed_text(take_until(rest, '\n'), line, at, out);
  return out;
}

KernelEvents KernelWatch::feed(std::span<const KernelLine> lines) {
  KernelEvents all;
  for (const KernelLine& line : lines) append(all, feed(line));
  return all;
}

void KernelWatch::feed_text(std::string_view text, const KernelLine& line, SinceBoot at,
                            KernelEvents& out) {
  if (is_of_old_records(text, at)) return;
  if (const auto xid = parse_xid(text)) {
    feed_xid(*xid, text, at, out);
  } else if (const auto sxid = parse_sxid(text)) {
    feed_sxid(*sxid, text, at, out);
  } else if (is_driver_load(text)) {
    note_driver_load(at, out);
  } else if (const auto is_up = parse_link_change(text)) {
    feed_link(*is_up, text, line, at, out);
  } else if (is_refused_register(text)) {
    const std::string device = device_of(address_of(text, line).value_or(""));
    if (news("refused " + device, 0, at)) out.refused_registers.push_back(device);
  } else if (const KernelRule* rule = find_kernel_rule(text)) {
    feed_rule(*rule, text, line, at, out);
  } else if (is_split_fall(state_.last_end, text)) {
    feed_rule(*find_kernel_rule(off_the_bus), text, line, at, out);
  }
  note_driver_line(text);
}

// What they call for had its reboot.
bool KernelWatch::is_of_old_records(std::string_view text, SinceBoot at) {
  if (is_header_of_old_records(text)) state_.old_records = at;
  const bool is_at_once = state_.old_records && at - *state_.old_records <= old_records_take;
  return is_at_once && is_line_of_old_records(text);
}

void KernelWatch::note_driver_line(std::string_view text) {
  if (!text.starts_with("NVRM:")) return;
  if (auto address = find_pci_address(text)) state_.last_gpu = std::move(*address);
  state_.last_end = text.substr(text.size() - std::min(text.size(), off_the_bus.size()));
}

void KernelWatch::note_driver_load(SinceBoot at, KernelEvents& out) {
  std::set<std::string> gpus;
  for (const auto& [address, name] : names_.names) {
    if (name.starts_with("gpu")) gpus.insert(address);
  }
  for (const auto& [key, failure] : state_.standing) {
    if (!failure.address.empty()) gpus.insert(failure.address);
  }
  state_.driver_loaded = at;
  std::erase_if(state_.standing, [](const auto& one) {
    const ActiveFailure& failure = one.second;
    return failure.address.empty() && failure.finding.check.starts_with("gpu.") &&
           failure.finding.check != "gpu.sxid";
  });
  for (const std::string& gpu : gpus) {
    on_reset(gpu, at);
    out.resets.push_back(device_of(gpu));
  }
}

void KernelWatch::feed_link(bool is_up, std::string_view text, const KernelLine& line, SinceBoot at,
                            KernelEvents& out) {
  const std::string address = address_of(text, line).value_or("");
  if (names_.skipped.contains(address)) return;
  if (!news((is_up ? "link-up " : "link-down ") + address, 0, at)) return;
  out.links.push_back({device_of(address), is_up, at, printable(text, line_shown_max)});
}

std::string KernelWatch::subject_of(const KernelRule& rule, std::string_view text,
                                    const KernelLine& line) const {
  if (rule.subject == LineSubject::node) return {};
  // A port tells of the device behind it.
  const std::size_t reported = text.find("AER: ");
  if (reported != text.npos) {
    if (auto source = find_pci_address(text.substr(reported))) return *source;
  }
  if (auto address = address_of(text, line)) return *address;
  return rule.subject == LineSubject::gpu ? state_.last_gpu : std::string();
}

void KernelWatch::feed_rule(const KernelRule& rule, std::string_view text, const KernelLine& line,
                            SinceBoot at, KernelEvents& out) {
  const std::string address = subject_of(rule, text, line);
  const bool passes = rule.stands_for || rule.severity.remedy == Remedy::warn;
  if (names_.skipped.contains(address) || (passes && is_history(at))) return;
  if (rule.subject == LineSubject::gpu && is_reset_since(address, at)) return;
  const std::string key = std::string(rule.check) + " " + address;
  const auto left_out = news(key, weight_of(rule.severity), at);
  if (!left_out) return;
  ActiveFailure failure{at, {}, rule.subject == LineSubject::gpu ? address : "", {}};
  if (rule.stands_for) failure.until = at + *rule.stands_for;
  failure.finding = failure_of(rule.check, device_of(address), rule.severity, rule.fault_class,
                               "logged", evidence_of(text, *left_out));
  failure.finding.expected = rule.expected;
  raise(std::move(failure), address, out);
}

void KernelWatch::feed_sxid(const SxidLine& sxid, std::string_view text, SinceBoot at,
                            KernelEvents& out) {
  const SxidClass sxid_class = class_of_sxid(sxid.sxid, sxid.word);
  const bool is_over = sxid_class == SxidClass::log && is_history(at);
  if (names_.skipped.contains(sxid.address) || is_over) return;
  const bool job_died = state_.job_death && is_near(at, *state_.job_death);
  CheckSeverity severity = severity_of(sxid_class, job_died);
  const OpenSxid event{sxid.address, sxid.sxid, at, printable(text, line_shown_max)};
  const std::string key = sxid_key(event);
  const auto left_out = news(key, weight_of(severity), at);
  if (!left_out) return;
  const bool is_often = state_.seen[key].in_hour >= log_sxids_per_hour;
  if (sxid_class == SxidClass::log && is_often) severity.remedy = Remedy::drain;
  if (state_.switches.size() < switches_max) state_.switches.insert(sxid.address);
  if (sxid_class == SxidClass::potentially_fatal && !job_died) {
    std::erase_if(state_.open_sxids, [&](const OpenSxid& one) { return !is_near(one.at, at); });
    if (state_.open_sxids.size() < open_sxids_max) state_.open_sxids.push_back(event);
  }
  raise_sxid(event, severity, *left_out, out);
}

void KernelWatch::raise_sxid(const OpenSxid& sxid, CheckSeverity severity, std::uint64_t left_out,
                             KernelEvents& out) {
  raise({sxid.at,
         {},
         {},
         failure_of("gpu.sxid", device_of(sxid.address), severity, FaultClass::node,
                    std::to_string(sxid.sxid), evidence_of(sxid.line, left_out))},
        sxid.address, out);
}

KernelEvents KernelWatch::on_job_death(SinceBoot at) {
  KernelEvents out;
  state_.job_death = at;
  const std::vector<OpenSxid> open = std::exchange(state_.open_sxids, {});
  const CheckSeverity severity = severity_of(SxidClass::potentially_fatal, true);
  for (const OpenSxid& sxid : open) {
    if (!is_near(sxid.at, at)) continue;
    if (news(sxid_key(sxid), weight_of(severity), sxid.at)) raise_sxid(sxid, severity, 0, out);
  }
  return out;
}

std::optional<std::uint64_t> KernelWatch::news(const std::string& key, int weight, SinceBoot at) {
  auto known = state_.seen.find(key);
  if (known == state_.seen.end()) {
    make_room(state_.seen, seen_max, [](const SeenEvent& event) { return event.at; });
    state_.seen.emplace(key, SeenEvent{at, weight, 0, at, 1});
    return 0;
  }
  SeenEvent& event = known->second;
  if (at - event.at < one_minute && weight <= event.weight) {
    ++event.repeats;
    return std::nullopt;
  }
  if (at - event.hour >= std::chrono::hours(1)) {
    event.hour = at;
    event.in_hour = 0;
  }
  ++event.in_hour;
  event.at = at;
  event.weight = weight;
  return std::exchange(event.repeats, 0);
}

// Only what keeps jobs away stands; a milder failure does not hide a heavier one.
void KernelWatch::raise(ActiveFailure failure, const std::string& address, KernelEvents& out) {
  if (is_history(failure.at)) {
    const auto before =
        std::chrono::duration_cast<std::chrono::minutes>(state_.history + look_back - failure.at);
    failure.finding.evidence.push_back("logged " + std::to_string(before.count()) +
                                       " min before anybody watched, and no reset since");
  }
  out.findings.push_back(failure.finding);
  if (failure.finding.severity.remedy == Remedy::warn) return;
  const std::string key = failure.finding.check + " " + address;
  const auto known = state_.standing.find(key);
  const bool is_heavier =
      known != state_.standing.end() &&
      weight_of(known->second.finding.severity) > weight_of(failure.finding.severity);
  if (is_heavier) return;
  if (known == state_.standing.end()) {
    make_room(state_.standing, watched_devices_max,
              [](const ActiveFailure& one) { return one.at; });
  }
  state_.standing.insert_or_assign(key, std::move(failure));
}

void KernelWatch::on_kill(std::span<const std::string> addresses, SinceBoot at) {
  const auto note = [&](const std::string& address) { keep_time(state_.kills, address, at); };
  if (addresses.empty()) note("");
  for (const std::string& address : addresses) note(normal_or_same(address));
}

void KernelWatch::on_reset(std::string_view address, SinceBoot at) {
  const std::string gpu = normal_or_same(address);
  keep_time(state_.resets, gpu, at);
  state_.actions.erase(gpu);
  state_.resets_at_epilog.erase(gpu);
  forget("gpu.xid " + gpu);
  forget("gpu.fell_off " + gpu);
  std::erase_if(state_.standing, [&](const auto& one) { return one.second.address == gpu; });
  // A switch's fault goes with the reset of all of its GPUs.
  std::erase_if(state_.standing, [&](const auto& one) {
    const ActiveFailure& failure = one.second;
    if (failure.finding.check != "gpu.sxid" || failure.finding.severity.remedy > Remedy::reset) {
      return false;
    }
    return std::ranges::all_of(names_.names, [&](const auto& named) {
      return !named.second.starts_with("gpu") || is_reset_since(named.first, failure.at);
    });
  });
}

void KernelWatch::on_cleared(std::string_view check, std::string_view device) {
  std::erase_if(state_.standing, [&](const auto& standing) {
    const auto& [key, failure] = standing;
    const std::string& address = failure.address;
    const bool is_meant =
        failure.finding.check == check && (device.empty() || failure.finding.device == device);
    if (!is_meant) return false;
    std::erase_if(state_.nvlink_faults, [&](const auto& one) {
      return !address.empty() && one.first.starts_with(address + " ");
    });
    forget(key);
    return true;
  });
}

void KernelWatch::forget(const std::string& key_begin) {
  std::erase_if(state_.seen, [&](const auto& one) { return one.first.starts_with(key_begin); });
}

bool KernelWatch::is_reset_since(std::string_view address, SinceBoot at) const {
  if (state_.driver_loaded && at < *state_.driver_loaded) return true;
  const auto reset = state_.resets.find(std::string(address));
  return reset != state_.resets.end() && at < reset->second;
}

std::vector<HealthFinding> KernelWatch::standing(const WatchSources& sources, SinceBoot now) const {
  std::vector<HealthFinding> findings;
  for (const auto& [key, failure] : state_.standing) {
    if (!failure.until || now < *failure.until) findings.push_back(failure.finding);
  }
  const auto failures = std::ssize(findings);
  for (const Asked& asked : asked_of(names_, state_)) {
    const bool fails = std::any_of(findings.begin(), findings.begin() + failures, [&](auto& one) {
      return one.check == asked.check && one.device == asked.device;
    });
    if (!fails) findings.push_back(without_failure(asked, sources));
  }
  return findings;
}

std::string KernelWatch::device_of(std::string_view address) const {
  const auto named = names_.names.find(address);
  return named == names_.names.end() ? std::string(address) : named->second;
}

}  // namespace muster
