// The host's checks: their rows, a table for each file of judges, and what these know besides
// files.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "health/checks/host/edac.h"
#include "health/checks/host/kernel.h"
#include "health/checks/host/versions.h"
#include "health/model/check.h"
#include "health/read/reader_protocol.h"
#include "scheduler/text/clock.h"

namespace muster {

struct HostSituation {
  std::optional<Milliseconds> clock_offset{};  // from the controller's
  std::set<std::int64_t> ended_uids{};         // users that ran here and run nothing now
  Time now{};
  // In the order of time. The first boot that was ever seen is no reboot.
  std::span<const BootSeen> boots{};
  EdacSample edac_before{};  // the oldest of the latest day
  NetFacts net{};
  std::optional<HelperFacts> helper{};
};

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
