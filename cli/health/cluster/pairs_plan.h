// What `muster health pairs` measures: which nodes take part, below which leaves, over which rails,
// against which floors. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/health/cluster/health_ready.h"
#include "cli/health/cluster/leaf_file.h"
#include "health/fault_isolation/measure.h"
#include "health/model/profile.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/result.h"

namespace muster {

// What a node said when it was asked whether it can take part.
struct PairCandidate {
  std::string node;
  std::optional<NodeReadiness> readiness;
  std::string why_none;  // no readiness: why
  bool has_job = false;  // it is never measured
};
PairCandidate held_candidate(const std::string& node, const std::string& job);

struct LeftOut {
  std::string node;
  std::string why;
  bool is_meant = false;  // it is not idle, and was to be left out then
};

struct PairTeam {
  std::vector<PairCandidate> members;
  std::vector<LeftOut> left_out;
  std::vector<std::string> busy;  // of members that are measured all the same: "h01: why"
};
struct PairTeamRules {
  bool idle_only = false;
  bool force = false;
};
// The Error: some are not idle, and neither is allowed.
Result<PairTeam> team_of(std::vector<PairCandidate> candidates, const PairTeamRules& rules);

// The HCAs that all have, as the profile wants them; and those that only some have.
struct CommonRails {
  std::vector<std::string> rails;
  std::vector<std::string> not_of_all;
};
CommonRails common_rails(const std::vector<PairCandidate>& members, const HealthProfile& profile);

// What the members say of their ports.
std::vector<RailGuids> rail_guids(const std::vector<PairCandidate>& members);

// Who is below no known leaf is below one of its own with the others.
std::vector<PairNode> pair_nodes(const std::vector<PairCandidate>& members,
                                 const std::vector<std::string>& rails, const LeafOfNode& leaves);

// Floors of the profile for what is measured.
SearchSettings pair_settings(const HealthProfile& profile, const PairMeasureOptions& options,
                             std::uint64_t seed);

// By node: those of one machine say the same. Without members that do not say.
std::map<std::string, std::string> pair_machines(const std::vector<PairCandidate>& members);

// What other nodes connect to.
std::map<std::string, std::string> pair_hosts(const ComputeTarget& target);

// A node of them that no other can reach; empty: none.
std::string unreachable_by_others(const ComputeTarget& target);

}  // namespace muster
