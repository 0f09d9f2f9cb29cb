#include "cli/health/cluster/pairs_plan.h"

#include <algorithm>
#include <set>

#include "cli/terminal/table.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr double bits_of_a_byte = 8;
constexpr const char* other_leaf = "other";
constexpr const char* only_leaf = "all";

// "mlx5_0" is its first port; a pattern without one stands for all.
bool is_named(const HealthProfile& profile, const std::string& hca) {
  if (profile.ib.ports.empty()) return true;
  const std::string port = hca.find(':') == hca.npos ? hca + ":1" : hca;
  const std::string device = port.substr(0, port.find(':'));
  return std::ranges::any_of(profile.ib.ports, [&](const std::string& pattern) {
    return fits_pattern(pattern, pattern.find(':') == pattern.npos ? device : port);
  });
}

}  // namespace

PairCandidate held_candidate(const std::string& node, const std::string& job) {
  return {node, NodeReadiness{"job " + job + " has it", {}}, "", true};
}

Result<PairTeam> team_of(std::vector<PairCandidate> candidates, const PairTeamRules& rules) {
  PairTeam team;
  std::vector<std::string> refused;
  for (PairCandidate& one : candidates) {
    if (!one.readiness) {
      team.left_out.push_back({one.node, one.why_none});
      continue;
    }
    const std::string& busy = one.readiness->busy;
    const bool is_forced = rules.force && !one.has_job;
    if (!busy.empty() && !is_forced && rules.idle_only) {
      team.left_out.push_back({one.node, "not idle: " + busy, true});
      continue;
    }
    if (!busy.empty()) (is_forced ? team.busy : refused).push_back(one.node + ": " + busy);
    team.members.push_back(std::move(one));
  }
  if (refused.empty()) return team;
  return Error{"not idle: " + joined(refused, "; ") +
               "; --idle-only skips such nodes, --force measures those without a job"};
}

CommonRails common_rails(const std::vector<PairCandidate>& members, const HealthProfile& profile) {
  std::map<std::string, std::size_t> count;
  for (const PairCandidate& one : members) {
    const std::set<std::string> own(one.readiness->hcas.begin(), one.readiness->hcas.end());
    for (const std::string& hca : own) {
      if (is_named(profile, hca)) ++count[hca];
    }
  }
  CommonRails rails;
  for (const auto& [hca, times] : count) {
    (times == members.size() ? rails.rails : rails.not_of_all).push_back(hca);
  }
  std::ranges::sort(rails.rails, natural_less);
  return rails;
}

std::vector<RailGuids> rail_guids(const std::vector<PairCandidate>& members) {
  std::vector<RailGuids> guids;
  for (const PairCandidate& one : members) guids.push_back({one.node, one.readiness->guids});
  return guids;
}

std::vector<PairNode> pair_nodes(const std::vector<PairCandidate>& members,
                                 const std::vector<std::string>& rails, const LeafOfNode& leaves) {
  std::vector<PairNode> nodes;
  for (const PairCandidate& one : members) {
    const auto found = leaves.find(one.node);
    const std::string other = leaves.empty() ? only_leaf : other_leaf;
    nodes.push_back({one.node, found == leaves.end() ? other : found->second, rails});
  }
  return nodes;
}

SearchSettings pair_settings(const HealthProfile& profile, const PairMeasureOptions& options,
                             std::uint64_t seed) {
  SearchSettings settings;
  settings.seed = seed;
  // Of several HCAs the slowest counts for the pair: the floor of one holds for all.
  const auto found = profile.floors.find(options.has_verbs ? "ib_write_bw_host_gbps" : "tcp_gbps");
  if (found != profile.floors.end()) settings.floor = found->second / bits_of_a_byte;
  return settings;
}

std::map<std::string, std::string> pair_machines(const std::vector<PairCandidate>& members) {
  std::map<std::string, std::string> machines;
  for (const PairCandidate& one : members) {
    if (!one.readiness->boot_id.empty()) machines[one.node] = one.readiness->boot_id;
  }
  return machines;
}

std::map<std::string, std::string> pair_hosts(const ComputeTarget& target) {
  std::map<std::string, std::string> hosts;
  for (const NodeAddress& node : target.nodes) {
    hosts[node.id.value] = node.job_address.empty() ? node.host : node.job_address;
  }
  return hosts;
}

std::string unreachable_by_others(const ComputeTarget& target) {
  for (const auto& [node, host] : pair_hosts(target)) {
    if (host.empty()) return node;
  }
  return {};
}

}  // namespace muster
