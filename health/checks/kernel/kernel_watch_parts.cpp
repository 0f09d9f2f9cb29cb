#include "health/checks/kernel/kernel_watch_parts.h"

#include <algorithm>
#include <iterator>

#include "health/kernel/pci_address.h"

namespace muster {

namespace {

template <typename T>
void append_all(std::vector<T>& all, std::vector<T> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
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

}  // namespace muster
