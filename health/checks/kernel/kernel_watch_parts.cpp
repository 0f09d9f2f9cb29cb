#include "health/checks/kernel/kernel_watch_parts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "health/checks/kernel/kernel_watch.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

template <typename T>
void append_all(std::vector<T>& all, std::vector<T> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
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
                         FaultClass fault_class) {
  HealthFinding finding;
  finding.check = check;
  finding.device = std::move(device);
  finding.status = CheckStatus::fail;
  finding.severity = severity;
  finding.fault_class = fault_class;
  finding.source = "kmsg";
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
  append_all(all.findings, std::move(more.findings));
  append_all(all.xids, std::move(more.xids));
  append_all(all.links, std::move(more.links));
  append_all(all.refused_registers, std::move(more.refused_registers));
  append_all(all.resets, std::move(more.resets));
}

std::vector<HealthFinding> KernelWatch::standing(const WatchSources& sources, SinceBoot now) const {
  std::vector<HealthFinding> findings;
  for (const auto& [key, failure] : state_.standing) {
    if (!failure.until || now < *failure.until) findings.push_back(failure.finding);
  }
  const std::size_t failures = findings.size();
  for (const Asked& asked : asked_of(names_, state_)) {
    bool fails = false;
    for (std::size_t i = 0; i < failures; ++i) {
      fails = fails || (findings[i].check == asked.check && findings[i].device == asked.device);
    }
    if (!fails) findings.push_back(without_failure(asked, sources));
  }
  return findings;
}

}  // namespace muster
