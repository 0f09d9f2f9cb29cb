// The host's checks: their rows, a table for each file of judges, and what these know besides
// files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "health/model/check.h"
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

std::span<const CheckSpec> edac_checks();
std::span<const CheckSpec> kernel_state_checks();
std::span<const CheckSpec> memory_checks();
std::span<const CheckSpec> mount_checks();
std::span<const CheckSpec> process_checks();
std::span<const CheckSpec> processor_checks();
std::span<const CheckSpec> storage_checks();
std::span<const CheckSpec> version_checks();

// For read_files: all that rows of the group `host` read. What may hang comes last: mounts, whose
// rows are the last ones.
std::vector<std::string> host_sources(const HealthProfile& profile);

}  // namespace muster
