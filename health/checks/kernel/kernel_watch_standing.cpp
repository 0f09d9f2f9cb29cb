// What the watch says when it is asked how the node stands.
#include <array>
#include <string>

#include "health/checks/kernel/kernel_watch.h"

namespace muster {

namespace {

struct Asked {
  std::string check;
  std::string device;
};

// Checks that nothing but the log answers: only of these the log's silence is a pass.
std::vector<Asked> asked_of(const PciNames& names, const KernelWatchState& state) {
  std::vector<Asked> asked{{"host.hung", ""}, {"host.oops", ""},     {"host.io", ""},
                           {"host.pcie", ""}, {"host.throttle", ""}};
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
