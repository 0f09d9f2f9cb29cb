// What is wrong with the links of a node at one time: ib.state, ib.phys, ib.rate, ib.link_layer,
// ib.lid, ib.pkey and ib.gid. Pure: files and profile in, findings out.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "health/checks/infiniband/link_flaps.h"
#include "health/checks/infiniband/port.h"
#include "health/model/counter_history.h"
#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

// Ports that all wait in INIT lack a subnet manager, which is not the node's fault. `is_of_links`:
// only what infiniband_link_sources() tell is judged.
std::vector<HealthFinding> judge_links(const SourceFiles& files, const HealthProfile& profile,
                                       std::span<const InfinibandPort> ports,
                                       bool is_of_links = false);

// All InfiniBand checks of a node at once: what its files said and what is remembered go in,
// findings come out. Who runs them picks those of a phase by the catalogue. Pure.

struct InfinibandFacts {
  const SourceFiles& files;
  const CounterHistory& counters;  // the files' counters are noted in it
  const LinkFlaps& flaps;
  std::chrono::milliseconds now{0};  // the wall clock, since 1970
  std::string log_error;             // why the kernel log could not be read; empty: it was
  std::optional<std::chrono::seconds> job_runs;  // on this and other nodes, for so long
  std::vector<std::string> refusing;  // devices whose driver logs ACCESS_REG errors when read
  bool has_counters = true;           // among the files
  bool is_of_links = false;           // all else is what was known before
};

std::vector<HealthFinding> judge_infiniband(const InfinibandFacts& facts,
                                            const HealthProfile& profile);

}  // namespace muster
