#include "cli/health/cluster/pairs_plan.h"

#include <algorithm>
#include <set>

#include "cli/terminal/table.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr double bits_of_a_byte = 8;
constexpr const char* nccl_metric = "two_node_allreduce_gb_per_s";
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

std::optional<double> floor_of(const HealthProfile& profile, const char* metric) {
  const auto found = profile.floors.find(metric);
  return found == profile.floors.end() ? std::nullopt : std::optional(found->second);
}

std::optional<double> floor_in_bits(const HealthProfile& profile, const char* metric) {
  const auto floor = floor_of(profile, metric);
  return floor ? std::optional(*floor / bits_of_a_byte) : std::nullopt;
}

// "2.28.9"
std::string nccl_text(int version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
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
  // Of several HCAs the slowest is the pair's figure: the floor of one holds for all.
  settings.rail_floor =
      floor_in_bits(profile, options.has_verbs ? "ib_write_bw_host_gbps" : "tcp_gbps");
  settings.pair_floor = settings.rail_floor;
  if (options.has_nccl) settings.pair_floor = floor_of(profile, nccl_metric);
  if (options.has_nccl && !options.has_verbs) settings.rail_floor = settings.pair_floor;
  return settings;
}

std::map<std::string, std::string> pair_machines(const std::vector<PairCandidate>& members) {
  std::map<std::string, std::string> machines;
  for (const PairCandidate& one : members) {
    if (!one.readiness->boot_id.empty()) machines[one.node] = one.readiness->boot_id;
  }
  return machines;
}

bool wants_nccl(const HealthProfile& profile) {
  const char* const check = "perf.nccl_pair";
  return floor_of(profile, nccl_metric).has_value() &&
         setting_of(profile, check).mode != CheckMode::off && !is_excluded(profile, check, "");
}

std::string why_no_nccl(const std::vector<PairCandidate>& members) {
  std::vector<std::string> without;
  for (const PairCandidate& one : members) {
    if (!one.readiness->nccl) without.push_back(one.node);
  }
  if (!without.empty()) {
    return joined(without, ", ") + ": no GPU, or no muster-gpu-probe that is built with NCCL";
  }
  for (const PairCandidate& one : members) {
    const int first = members.front().readiness->nccl->version;
    const int other = one.readiness->nccl->version;
    if (other == first) continue;
    return "NCCL is " + nccl_text(first) + " on " + members.front().node + " and " +
           nccl_text(other) + " on " + one.node;
  }
  return {};
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
