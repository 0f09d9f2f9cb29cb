#include "health/model/check.h"

#include <algorithm>

#include "scheduler/model/result.h"

namespace muster {

const CheckSpec* find_check(std::string_view id) {
  for (const auto table :
       {gpu_checks(), infiniband_checks(), fabric_checks(), host_checks(), performance_checks()}) {
    const auto found = std::ranges::find(table, id, &CheckSpec::id);
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

bool has_shared_cause(const HealthFinding& finding) {
  const CheckSpec* spec = find_check(finding.check);
  return finding.fault_class == FaultClass::infra || (spec && spec->is_often_shared);
}

HealthFinding make_finding(std::string_view check, std::string device, CheckStatus status) {
  const CheckSpec* spec = find_check(check);
  muster::check(spec != nullptr, "a finding of a check that is not in the catalogue");
  HealthFinding finding;
  finding.check = check;
  finding.device = std::move(device);
  finding.status = status;
  finding.severity = spec->severity;
  finding.fault_class = spec->fault_class;
  finding.source = spec->source;
  return finding;
}

}  // namespace muster
