// The InfiniBand checks of a node: what its files said and what is remembered go in, findings come
// out. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "health/checks/infiniband/link_flaps.h"
#include "health/checks/infiniband/port.h"
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

// For ib.fw, which one node cannot judge: most nodes are right. Empty: unreadable.
struct InfinibandVersions {
  std::string device;
  std::string firmware;  // "28.39.1002"
  std::string board;     // "MT_0000000838"
  std::string type;      // "MT4129"
  friend bool operator==(const InfinibandVersions&, const InfinibandVersions&) = default;
};
std::vector<InfinibandVersions> infiniband_versions(const SourceFiles& files,
                                                    const std::vector<InfinibandPort>& ports);

// One port of each device.
std::vector<InfinibandPort> first_ports(const std::vector<InfinibandPort>& ports);

// ---- findings about one port or its device, in the words that all InfiniBand checks share

// A pass as yet, about what stands in the file `leaf` of the port.
HealthFinding port_finding(const CheckInput& input, const InfinibandPort& port,
                           std::string_view leaf, std::string expected = {});
// About the device of the port.
HealthFinding device_finding(const CheckInput& input, const InfinibandPort& port,
                             std::string_view leaf, std::string expected = {});

HealthFinding as_unknown(HealthFinding finding, std::string why);
// A file of the finding's source that could not be read.
HealthFinding as_unreadable(HealthFinding finding, const FileReading& reading);
// One that was read and says what nobody understands.
HealthFinding as_not_understood(HealthFinding finding, std::string_view text);
HealthFinding as_failed(HealthFinding finding, CheckSeverity severity);
HealthFinding as_failed(HealthFinding finding);  // as the row says

// A failure of a link that may still be coming up after boot says nothing yet.
HealthFinding with_grace(HealthFinding finding, const CheckInput& input);

// "131", "0.43"
std::string shown_number(double value);

// What the finding's file says as `parse` understands it. Nothing: the finding tells why.
template <class Parse>
auto read_as(const CheckInput& input, HealthFinding& finding, Parse parse) {
  const FileReading& read = input.files.reading(finding.source);
  auto value = read.ok() ? parse(std::string_view(read.text)) : decltype(parse(""))();
  if (!read.ok()) finding = as_unreadable(std::move(finding), read);
  if (read.ok() && !value) finding = as_not_understood(std::move(finding), read.text);
  return value;
}

// ---- rows

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
std::span<const CheckSpec> infiniband_link_checks();

}  // namespace muster
