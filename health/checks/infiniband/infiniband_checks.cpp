#include "health/checks/infiniband/infiniband_checks.h"

namespace muster {

std::span<const CheckSpec> infiniband_checks() {
  static const std::vector<CheckSpec> all =
      joined_rows({infiniband_device_checks(), infiniband_link_checks(),
                   infiniband_counter_checks(), infiniband_flap_checks()});
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

}  // namespace muster
