// The host's checks: their rows, a table for each file of judges, and what these know besides
// files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/check.h"
#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"
#include "health/read/reader_protocol.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

// When a node started.
struct BootSeen {
  std::string boot_id;
  Time first_seen{};

  MUSTER_FIELDS(boot_id, first_seen)
};

// Errors that a memory controller corrected or could not: counts since the start, so two samples
// say what happened between them.
struct EdacCounts {
  std::optional<std::int64_t> uncorrected;  // nothing: could not be read
  std::optional<std::int64_t> corrected;

  MUSTER_FIELDS(uncorrected, corrected)
};

struct EdacSample {
  std::string boot_id;
  Time at{};
  std::map<std::string, EdacCounts> by_controller;  // "mc0"
  std::string error;                                // why there is none; empty: they were read

  MUSTER_FIELDS(boot_id, at, by_controller, error)
};

// Of one controller: its driver was loaded anew, and counts from 0.
bool counts_anew(const EdacCounts& before, const EdacCounts& now);
EdacSample edac_sample_of(const SourceFiles& files, Time at);

// What a node's peers can tell of it.
struct NetFacts {
  std::optional<Milliseconds> round_trip;  // to the node over the controller's channel
  std::vector<std::string> unknown_peers;  // names that the node could not resolve
  std::optional<bool> is_master_port_free;
};

struct HostSituation {
  std::optional<Milliseconds> clock_offset{};  // from the controller's
  std::set<std::int64_t> ended_uids{};         // users that ran here and run nothing now
  Time now{};
  // In the order of time. The first boot that was ever seen is no reboot.
  std::span<const BootSeen> boots{};
  EdacSample edac_before{};  // the oldest of the latest day: corrected errors count by the day
  NetFacts net{};
  std::optional<HelperFacts> helper{};
};

// What one node says of itself, by what it is: "kernel" -> "6.1.0".
using Facts = std::map<std::string, std::string>;

// What a node says of its software and network, to be compared with the other nodes' by
// judge_majority: "kernel", "ofed", "libcuda", "nccl"; what is not installed is left out.
Facts versions_of(const SourceFiles& files);
// "mtu ib0" for each interface that is up. For host.net.
Facts mtus_of(const SourceFiles& files);

std::span<const CheckSpec> kernel_state_checks();
std::span<const CheckSpec> mount_checks();
std::span<const CheckSpec> process_checks();
std::span<const CheckSpec> storage_checks();

// For read_files: all that rows of the group `host` read. What may hang comes last: mounts, whose
// rows are the last ones.
std::vector<std::string> host_sources(const HealthProfile& profile);

// A finding of several conditions on one device: fails when one of them does, else is unknown when
// one of them is. A judge adds conditions as it meets them; without any there is no finding.

class JudgedCheck {
 public:
  explicit JudgedCheck(const CheckSpec& check, std::string device = {})
      : check_(check), device_(std::move(device)) {}

  void pass(std::string value) { passed_.push_back(std::move(value)); }
  void fail(std::string value, std::string expected);
  // A failure that is only written down, whatever the check's severity.
  void warn(std::string value, std::string expected);
  void unknown(std::string why) { unknown_.push_back(std::move(why)); }
  void unreadable(std::string_view path, const FileReading& reading);
  void require(bool holds, std::string value, std::string expected);
  void add_evidence(std::string line) { evidence_.push_back(std::move(line)); }
  void set_source(std::string source) { source_ = std::move(source); }

  std::optional<HealthFinding> finding() const;
  void add_to(std::vector<HealthFinding>& findings) const { append_findings(findings, finding()); }

 private:
  const CheckSpec& check_;
  std::string device_;
  std::string source_;  // empty: the check's
  std::vector<std::string> passed_;
  std::vector<std::string> failed_;
  std::vector<std::string> expected_;
  bool has_failed_hard_ = false;
  std::vector<std::string> unknown_;
  std::vector<std::string> evidence_;
};

// The judge of a row from what adds conditions to its only finding.
template <void (*judge)(JudgedCheck&, const CheckInput&)>
std::vector<HealthFinding> in_one_finding(const CheckInput& input) {
  JudgedCheck judged(input.check());
  judge(judged, input);
  std::vector<HealthFinding> findings;
  judged.add_to(findings);
  return findings;
}

// The same of each that a list of the profile's host names.
template <auto list, void (*judge)(JudgedCheck&, const CheckInput&, const std::string&)>
std::vector<HealthFinding> on_each_listed(const CheckInput& input) {
  std::vector<HealthFinding> findings;
  for (const std::string& name : input.profile.host.*list) {
    JudgedCheck judged(input.check(), name);
    judge(judged, input, name);
    judged.add_to(findings);
  }
  return findings;
}

// Required by the profile, or set there: what it would read is missed where it is not there.
bool is_named_by(const HealthProfile& profile, std::string_view check);

}  // namespace muster
