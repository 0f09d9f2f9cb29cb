// The InfiniBand checks of a node: what its files said and what is remembered go in, findings come
// out. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "health/checks/infiniband/link_flaps.h"
#include "health/checks/infiniband/port.h"
#include "health/checks/infiniband/port_finding.h"
#include "health/model/check.h"
#include "health/model/counter_history.h"

namespace muster {

struct InfinibandFacts {
  const SourceFiles& files;
  const CounterHistory& counters;  // the files' counters are noted in it
  const LinkFlaps& flaps;
  std::chrono::milliseconds now{0};  // the wall clock, since 1970
  std::string log_error{};           // why the kernel log could not be read; empty: it was
  std::optional<std::chrono::seconds> job_runs{};  // on this and other nodes, for so long
  std::vector<std::string> refusing{};  // devices whose driver logs ACCESS_REG errors when read
  bool has_counters = true;             // among the files
  bool is_of_links = false;             // all else is what was known before
};

// Of what only links and counters tell, the checks that run while ranks do.
std::vector<HealthFinding> judge_infiniband(const InfinibandFacts& facts,
                                            const HealthProfile& profile);

struct InfinibandLook {
  const InfinibandFacts& facts;
  std::vector<InfinibandPort> ports;  // that are judged
};

// One port of each device.
std::vector<InfinibandPort> first_ports(const std::vector<InfinibandPort>& ports);

// The judge of a row from the judge of one port, or of one device.
template <HealthFinding (*judge)(const CheckInput&, const InfinibandPort&)>
std::vector<HealthFinding> on_each_port(const CheckInput& input) {
  std::vector<HealthFinding> findings;
  for (const InfinibandPort& port : input.ib->ports) {
    if (is_judged(input.profile, input.check().id, port))
      findings.push_back(with_grace(judge(input, port), input));
  }
  return findings;
}
template <std::optional<HealthFinding> (*judge)(const CheckInput&, const InfinibandPort&)>
std::vector<HealthFinding> on_each_device(const CheckInput& input) {
  std::vector<HealthFinding> findings;
  for (const InfinibandPort& port : first_ports(input.ib->ports)) {
    if (is_judged(input.profile, input.check().id, port))
      append_findings(findings, judge(input, port));
  }
  return findings;
}

// The rows of each file of judges.
std::span<const CheckSpec> infiniband_counter_checks();
std::span<const CheckSpec> infiniband_device_checks();
std::span<const CheckSpec> infiniband_flap_checks();
std::span<const CheckSpec> infiniband_link_checks();

}  // namespace muster
