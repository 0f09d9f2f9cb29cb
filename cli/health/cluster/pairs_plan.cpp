#include "cli/health/cluster/pairs.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/terminal/escape.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"
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

// Twice what rails and networks at rest show: a slow one of 5 % is not seen behind more.
constexpr double noise_most = 0.04;
constexpr std::size_t complaints_shown = 3;

bool is_doubtful(const FaultVerdict& verdict) {
  return verdict.kind == FaultKind::doubtful;
}

bool is_of_node(const FaultVerdict& verdict) {
  return drains(verdict.kind) || is_doubtful(verdict);
}

const char* state_of(const PairsResult& result) {
  if (is_slow(result)) return "slow";
  return why_unclear(result).empty() ? "clean" : "unclear";
}

const char* check_of(const PairsResult& result) {
  return result.has_verbs ? "perf.ib_pair" : "perf.tcp_pair";
}

std::string way_of(const PairsResult& result) {
  return result.has_verbs ? "InfiniBand, " + plural(result.rails.size(), "rail") : "TCP";
}

FindingReport report_for(const PairsResult& result, const std::string& host,
                         const std::string& device, CheckStatus status) {
  FindingReport report = asked_report(host, check_of(result), status, utc_text(result.at));
  report.device = device;
  report.expected = "pairs as fast as others";
  report.source = "muster health pairs";
  return report;
}

FindingReport report_of(const PairsResult& result, const FaultVerdict& verdict) {
  const bool is_a_node = is_of_node(verdict) && !verdict.names.empty();
  const std::string host = is_a_node ? verdict.names.front() : "";
  const std::string device = is_a_node ? verdict.rail : name_of(verdict);
  const CheckStatus status = is_doubtful(verdict) ? CheckStatus::unknown : CheckStatus::fail;
  FindingReport report = report_for(result, host, device, status);
  if (!is_a_node) report.fault_class = word_of(FaultClass::infra);
  report.value = report_value(is_doubtful(verdict) ? "slow within the noise"
                              : verdict.no_result  ? "no result"
                                                   : "slow");
  report.evidence = verdict.evidence;
  return report;
}

std::string verdict_lines(const FaultVerdict& verdict, bool color) {
  const Ink ink = is_doubtful(verdict) ? Ink::yellow : Ink::red;
  const char* what = is_doubtful(verdict) ? "perhaps slow"
                     : verdict.no_result  ? "no result"
                                          : "slow";
  std::string text = inked(what, ink, color) + ": " + one_line(name_of(verdict)) + "\n";
  for (const std::string& line : verdict.evidence) text += "  " + one_line(line) + "\n";
  if (verdict.path_possible && is_of_node(verdict)) {
    text += "  its partner was below another leaf: a link between them may be the cause\n";
  }
  return text;
}

std::string last_line(const PairsResult& result, bool color) {
  if (is_slow(result)) {
    std::vector<std::string> names;
    for (const FaultVerdict& verdict : result.verdicts) {
      if (!is_doubtful(verdict)) names.push_back(name_of(verdict));
    }
    return inked("slow", Ink::red, color) + ": " + one_line(joined(names)) + "\n";
  }
  const std::vector<std::string> reasons = why_unclear(result);
  if (reasons.empty()) return inked("no pair is slower than the others", Ink::green, color) + "\n";
  return inked("unknown", Ink::yellow, color) + ": " + one_line(joined(reasons, "; ")) + "\n";
}

Document document_of(const FaultVerdict& verdict) {
  return {{"kind", std::string(word_of(verdict.kind))}, {"names", verdict.names},
          {"rail", value_or_null(verdict.rail)},        {"no_result", verdict.no_result},
          {"path_possible", verdict.path_possible},     {"evidence", verdict.evidence}};
}

constexpr std::size_t leaf_lines_most = 65'536;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  return {std::istream_iterator<std::string>(text), {}};
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

void leave_out_taken(PairsResult& result, const std::map<std::string, std::string>& why_of_node) {
  if (why_of_node.empty()) return;
  for (const auto& [node, why] : why_of_node) {
    result.left_out.push_back({node, why});
    std::erase(result.nodes, node);
  }
  std::erase_if(result.verdicts, [&](const FaultVerdict& verdict) {
    // Half of a leaf's pairs may have been theirs.
    const bool is_of_many = verdict.kind == FaultKind::leaf || verdict.kind == FaultKind::infra;
    return is_of_many || std::ranges::any_of(verdict.names, [&](const std::string& name) {
             return why_of_node.contains(name);
           });
  });
}

bool is_slow(const PairsResult& result) {
  return result.median_gb_per_s > 0 &&
         !std::ranges::all_of(result.verdicts,
                              [](const auto& verdict) { return is_doubtful(verdict); });
}

std::vector<std::string> why_unclear(const PairsResult& result) {
  if (is_slow(result)) return {};
  if (result.median_gb_per_s <= 0) {
    const std::string first = result.complaints.empty() ? "" : ": " + result.complaints.front();
    return {"no pair gave a number" + first};
  }
  std::vector<std::string> reasons;
  for (const FaultVerdict& verdict : result.verdicts) {
    reasons.push_back(name_of(verdict) + " was slow twice, within the noise");
  }
  std::vector<std::string> silent;
  for (const LeftOut& one : result.left_out) {
    if (!one.is_meant) silent.push_back(one.node);
  }
  if (!silent.empty()) reasons.push_back(joined(silent) + " did not take part");
  if (result.noise > noise_most) {
    reasons.push_back("pairs differ by " + printed("%.1f %%", 100 * result.noise) +
                      " of the median without a cause: the network is in use, or --time is short");
  }
  return reasons;
}

HealthExit pairs_exit(const PairsResult& result) {
  if (is_slow(result)) return HealthExit::drained;
  return why_unclear(result).empty() ? HealthExit::healthy : HealthExit::unclear;
}

std::string name_of(const FaultVerdict& verdict) {
  const std::string names = joined(verdict.names);
  switch (verdict.kind) {
    case FaultKind::rail:
      return "rail " + verdict.rail + " of " + names;
    case FaultKind::path:
      return "the path between " + names;
    case FaultKind::doubtful:
      return "node " + names;
    case FaultKind::infra:
      return "most leaves" + (names.empty() ? "" : ": " + names);
    default:
      return std::string(word_of(verdict.kind)) + " " + names;
  }
}

std::vector<FindingReport> pairs_reports(const PairsResult& result) {
  std::vector<FindingReport> reports;
  std::set<std::string> told;
  for (const FaultVerdict& verdict : result.verdicts) {
    reports.push_back(report_of(result, verdict));
    if (is_of_node(verdict)) told.insert(verdict.names.begin(), verdict.names.end());
  }
  for (const LeftOut& one : result.left_out) {
    reports.push_back(report_for(result, one.node, "", CheckStatus::unknown));
    reports.back().evidence = {one.why};
  }
  const bool is_measured = result.median_gb_per_s > 0;
  for (const std::string& node : result.nodes) {
    if (told.contains(node)) continue;
    reports.push_back(
        report_for(result, node, "", is_measured ? CheckStatus::pass : CheckStatus::unknown));
    if (!is_measured) reports.back().evidence = why_unclear(result);
  }
  return reports;
}

std::string pairs_text(const PairsResult& result, const HealthTextForm& form) {
  std::string text;
  for (const FaultVerdict& verdict : result.verdicts) {
    text += verdict_lines(verdict, form.color);
  }
  for (const LeftOut& one : result.left_out) {
    text += "skipped: " + one_line(one.node) + ": " + one_line(one.why) + "\n";
  }
  for (const std::string& one : result.busy) text += "not idle: " + one_line(one) + "\n";
  std::size_t shown = 0;
  for (const std::string& one : result.complaints) {
    if (++shown > complaints_shown && !form.all) break;
    text += "no result: " + one_line(one) + "\n";
  }
  const std::size_t more =
      result.complaints.size() - std::min(result.complaints.size(), complaints_shown);
  if (more > 0 && !form.all) text += "no result: " + std::to_string(more) + " more, with --all\n";
  text += plural(result.nodes.size(), "node") + " over " + way_of(result) + ", " +
          plural(static_cast<std::size_t>(result.rounds), "round") + " in " +
          elapsed_text(result.took);
  if (result.median_gb_per_s > 0) {
    text += ": median " + printed("%.3g", result.median_gb_per_s) + " GB/s, noise " +
            printed("%.1f %%", 100 * result.noise);
  }
  return text + "\n" + last_line(result, form.color);
}

Document pairs_document(const PairsResult& result) {
  Document out;
  out["ts"] = utc_text(result.at);
  out["target"] = result.target;
  out["profile"] = value_or_null(result.profile);
  out["took_ms"] = result.took.count();
  out["seed"] = result.seed;
  out["over"] = result.has_verbs ? "infiniband" : "tcp";
  out["rails"] = result.rails;
  out["nodes"] = result.nodes;
  out["left_out"] = list_of(result.left_out, [](const LeftOut& one) {
    return Document{{"node", one.node}, {"why", one.why}};
  });
  out["busy"] = result.busy;
  out["rounds"] = result.rounds;
  out["median_gb_per_s"] =
      result.median_gb_per_s > 0 ? Document(result.median_gb_per_s) : Document(nullptr);
  out["noise"] = result.noise;
  out["state"] = state_of(result);
  out["why"] = why_unclear(result);
  out["verdicts"] = list_of(result.verdicts, document_of);
  out["no_result"] = result.complaints;
  out["findings"] =
      list_of(pairs_reports(result), [](const auto& one) { return report_document(one); });
  return out;
}

Result<LeafOfNode> read_leaves(std::string_view text) {
  LeafOfNode leaves;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    if (++number > leaf_lines_most) return Error{"it has too many lines"};
    const auto words = words_of(std::string(line.substr(0, line.find('#'))));
    if (words.empty()) continue;
    const std::string where = "line " + std::to_string(number) + ": ";
    if (words.size() != 2) return Error{where + "expected a node and its leaf"};
    if (!leaves.emplace(words[0], words[1]).second) {
      return Error{where + "node " + words[0] + " comes twice"};
    }
  }
  return leaves;
}

}  // namespace muster
