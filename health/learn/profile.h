// A profile from a node that is known to be good: each check learns what it compares with. Pure:
// one reading of all sources goes in. What nobody read or measured stays out of the profile, and so
// is not judged.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "health/checks/host/host_checks.h"
#include "health/model/gpu_readings.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"
#include "health/read/reader_protocol.h"

namespace muster {

struct LearnedProfile {
  HealthProfile profile;
  std::vector<std::string> left_out;  // "gpu.ecc: gpu3 says 0, gpu0 says 1"
};

// What learn_profile wants to be read.
NodeReadRequest learning_request();

LearnedProfile learn_profile(const NodeReadings& readings, std::string profile_name);

// Two nodes that are both good differ by less.
inline constexpr double learned_margin_pct = 5;
// `measured`: by floor, "p2p_gb_per_s".
void learn_floors(const std::map<std::string, double>& measured, HealthProfile& profile);

// The versions that nodes compare with each other, as each tells them, and which of them differ
// from those of most nodes: no node can tell that of itself. Pure.

// Of two that differ either may be right.
inline constexpr std::size_t compared_nodes_min = 3;

// By the check that compares them: "ib.fw" -> {"MT_0000000838": "28.39.1002"}.
using NodeVersions = std::map<std::string, Facts>;

// What is not there, or was not read, is left out. `gpus` may be null.
NodeVersions node_versions(const SourceFiles& files, const GpuReadings* gpus);

// One finding for each node: fails for the facts in which it differs from the majority. A fact that
// it does not tell is none; without a majority it is unknown.
std::map<std::string, HealthFinding> judge_majority(std::string_view check,
                                                    const std::map<std::string, Facts>& by_node);

// For nodes of one kind, by the node's name. Nothing of a check that fewer than compared_nodes_min
// of them tell of.
std::map<std::string, std::vector<HealthFinding>> judge_versions(
    const std::map<std::string, NodeVersions>& by_node);

}  // namespace muster
