#include "health/checks/infiniband/judge.h"

#include <iterator>

#include "health/checks/infiniband/counter_checks.h"
#include "health/checks/infiniband/device_checks.h"
#include "health/checks/infiniband/link_checks.h"

namespace muster {

std::vector<HealthFinding> judge_infiniband(const InfinibandFacts& facts,
                                            const HealthProfile& profile) {
  const SourceFiles& files = facts.files;
  const auto ports = judged_ports(files, profile, facts.refusing);
  std::vector<HealthFinding> findings = judge_port_presence(files, profile);
  const auto add = [&findings](std::vector<HealthFinding> more) {
    findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  };
  add(judge_links(files, profile, ports, facts.is_of_links));
  if (!facts.is_of_links) add(judge_devices(files, profile, ports));
  if (facts.has_counters) {
    add(judge_counters(files, profile, ports, facts.counters));
    add(judge_traffic(files, profile, ports, facts.counters, facts.job_runs));
  }
  add(facts.flaps.judge(profile, ports, facts.now, facts.log_error));
  return findings;
}

}  // namespace muster
