// The InfiniBand checks of a node: what its files said and what is remembered go in, findings come
// out. Pure.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/checks/infiniband/port.h"
#include "health/model/check.h"
#include "health/model/counter_history.h"
#include "health/model/finding.h"
#include "health/model/source_files.h"
#include "scheduler/text/fields.h"

namespace muster {

// How often links went down of themselves, as the kernel log told: ib.flap. A link that flaps
// comes back each time, so its state passes whenever somebody looks. Pure; state is plain data.

// Wall-clock times since 1970, rising.
struct LinkFlapTrack {
  std::string device;  // "mlx5_3"
  std::vector<std::chrono::milliseconds> downs;
  friend bool operator==(const LinkFlapTrack&, const LinkFlapTrack&) = default;

  MUSTER_FIELDS(device, downs)
};

class LinkFlaps {
 public:
  LinkFlaps() = default;
  explicit LinkFlaps(const std::vector<LinkFlapTrack>& state);

  // A link of the adapter at the address went down. No flap within the first minutes after boot
  // (`since_boot`), while drivers and fabric find each other.
  void observe_down(std::string_view pci_address, const SourceFiles& files,
                    const HealthProfile& profile, std::chrono::milliseconds at,
                    std::chrono::seconds since_boot);
  std::vector<HealthFinding> judge(const CheckInput& input) const;
  std::vector<LinkFlapTrack> state() const;

 private:
  HealthFinding judge_port(const CheckInput& input, const InfinibandPort& port,
                           std::chrono::milliseconds now) const;

  std::map<std::string, LinkFlapTrack> tracks_;  // by device
};

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

// The InfiniBand devices of a node as a look told them that read all that tells devices, so that
// looks in between need only read what changes with a link. Pure.

class KnownDevices {
 public:
  bool empty() const { return files_.all().empty(); }
  void forget() { files_ = {}; }
  // Of files that infiniband_device_sources() were read for; nothing when one could not be, or
  // there is no port.
  void remember(const SourceFiles& files);
  // infiniband_link_sources() of the ports that are known, which need not be listed.
  std::vector<std::string> link_sources() const;
  // What link_sources() told of the devices that are known, with what tells them. Those that are
  // gone are left out; nothing more is known once another one is there.
  SourceFiles with_links(const SourceFiles& links);

 private:
  bool has(std::string_view device) const;

  SourceFiles files_;
};

// Judges how the counters of ports grow: ib.saturated, the error counters of `counters`,
// ib.transport of `hw_counters`, ib.traffic. First every reading is noted, then the history is
// judged. Pure, but for the history that is written to.

// More than the limit `name` of the check within `per` fails; with `fails_at` that many do.
struct CounterLimit {
  std::string_view name;  // "drain_per_h"
  std::chrono::seconds per{1};
  CheckSeverity severity;
  bool fails_at = false;
};

// How a file of a port is judged; a check may have several.
struct CounterRule {
  std::string_view check;
  std::string_view file;  // "counters/symbol_error"
  int bits = 16;
  std::array<std::optional<CounterLimit>, 2> limits;
  bool is_optional = false;  // not every driver has it
};
std::span<const CounterRule> infiniband_counter_rules();
// Of a port: all that rules judge, and what it moved.
std::vector<std::string_view> infiniband_counter_files();

// Notes what all counters of the ports say. Not while links come up after boot: the errors of
// their training are no fault.
void note_counters(CounterHistory& history, const SourceFiles& files, const HealthProfile& profile,
                   std::span<const InfinibandPort> ports, std::chrono::milliseconds now);

// Unknown only because a counter was read for the first time, and will be known with the next run.
bool is_first_reading(const HealthFinding& finding);

}  // namespace muster
