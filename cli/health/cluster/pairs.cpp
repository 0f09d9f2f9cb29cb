#include "cli/health/cluster/pairs.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <random>

#include <nlohmann/json.hpp>

#include "cli/client/targets.h"
#include "cli/health/cluster/nodes.h"
#include "cli/health/profile.h"
#include "cli/health/result.h"
#include "cli/health/sources.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "health/checks/infiniband/port.h"
#include "health/fabric/fabric.h"
#include "health/fabric/readers.h"
#include "health/fabric/tools.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

constexpr Milliseconds usual_time{10'000};
constexpr Milliseconds longest_time{60'000};  // of the TCP probe
constexpr Milliseconds usual_pairs_timeout{30'000};
constexpr Milliseconds longest_pairs_timeout{600'000};
// Of two nodes none can be told to be the slow one.
constexpr std::size_t nodes_least = 3;
constexpr std::int64_t usual_port = 18'700;
constexpr std::int64_t port_least = 1'024;
constexpr std::int64_t port_most = 50'000;
constexpr std::size_t leaves_bytes_most = 4u << 20;
constexpr std::chrono::seconds readiness_limit{30};  // drivers are asked for their processes

std::string misuse_of(const HealthPairsOptions& options) {
  const Milliseconds time = options.time.value_or(usual_time);
  if (time < Seconds{1} || time > longest_time || time % Seconds{1} != Milliseconds{0}) {
    return "--time: expected whole seconds, 1s to " + elapsed_text(longest_time);
  }
  const Milliseconds timeout = options.timeout.value_or(usual_pairs_timeout);
  if (timeout <= Milliseconds{0} || timeout > longest_pairs_timeout) {
    return "--timeout: expected more than 0 and at most " + elapsed_text(longest_pairs_timeout);
  }
  const std::int64_t port = options.port.value_or(usual_port);
  if (port < port_least || port > port_most) {
    return "--port: expected " + std::to_string(port_least) + " to " + std::to_string(port_most);
  }
  if (options.tcp && !options.hcas.empty()) {
    return "--hca queries an InfiniBand fabric; pairs over TCP use none";
  }
  if (options.nodes.empty() && options.target.empty()) {
    return "which nodes? NODE names them, --target all of a compute target";
  }
  return {};
}

ComputeTarget chosen_target(const std::vector<ComputeTarget>& known,
                            const HealthPairsOptions& options) {
  auto targets = chosen_nodes(known, options.target, options.nodes);
  if (targets.size() > 1) {
    throw VerbEnd(usage_error, "the nodes are of several compute targets: --target names one");
  }
  const std::string lonely = unreachable_by_others(targets.front());
  if (lonely.empty()) return std::move(targets.front());
  throw VerbEnd(usage_error,
                "node " + lonely + " has no address that other nodes could connect to");
}

std::string new_token() {
  std::array<unsigned char, 16> random{};
  check(::getrandom(random.data(), random.size(), 0) == static_cast<ssize_t>(random.size()),
        "no random bytes");
  constexpr std::string_view digits = "0123456789abcdef";
  std::string token;
  for (const unsigned char byte : random) {
    token += digits[byte / 16];
    token += digits[byte % 16];
  }
  return token;
}

std::vector<PairCandidate> candidates_of(const ComputeTarget& target, DeskNodes& nodes,
                                         const std::string& token, const CommonOptions& common) {
  const auto jobs = or_end(jobs_on_nodes(common));
  std::vector<PairCandidate> candidates;
  std::vector<NodeCommand> commands;
  for (const NodeAddress& node : target.nodes) {
    const auto job = jobs.find(node.id.value);
    if (job != jobs.end()) {
      candidates.push_back(held_candidate(node.id.value, job->second));
    } else {
      commands.push_back({node.id.value, {ready_probe}, token, readiness_limit});
    }
  }
  const std::vector<NodeOutput> outputs = nodes.run(commands);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    PairCandidate one{commands[i].node, read_readiness(outputs[i].lines), outputs[i].error};
    if (!one.readiness && one.why_none.empty()) one.why_none = "its answer cannot be read";
    candidates.push_back(std::move(one));
  }
  return candidates;
}

std::vector<HcaPort> ports_for(const HealthPairsOptions& options) {
  std::vector<HcaPort> ports;
  for (const std::string& hca : options.hcas) {
    ports.push_back(or_end(read_hca_port(hca), usage_error, "--hca: "));
  }
  return ports;
}

// By the rails' own cables; by the names of hosts, where a rail is not found.
Result<LeafOfNode> ask_leaves(const std::vector<HcaPort>& ports, const PairTeam& team,
                              const std::vector<std::string>& rails) {
  std::vector<Fabric> fabrics;
  for (std::size_t i = 0; i < std::max<std::size_t>(1, ports.size()); ++i) {
    FabricToolOptions options;
    if (i < ports.size()) options.port = ports[i];
    fabrics.push_back(read_ibnetdiscover(ask_fabric_tool(FabricTool::discover, options).said));
  }
  auto leaves = leaves_by_rails(rail_guids(team.members), rails, fabrics);
  return leaves ? leaves : leaves_by_names(fabrics);
}

LeafOfNode leaves_for(const HealthPairsOptions& options, const std::vector<HcaPort>& ports,
                      const PairTeam& team, const std::vector<std::string>& rails,
                      const CommonOptions& common) {
  if (!options.leaves.empty()) {
    const auto text = or_end(read_input(options.leaves, leaves_bytes_most), invalid_file);
    return or_end(read_leaves(text), invalid_file, options.leaves + ": ");
  }
  if (rails.empty()) return {};
  auto leaves = ask_leaves(ports, team, rails);
  if (leaves) return std::move(*leaves);
  notice("leaf switches are not known (" + leaves.error().message +
             "): all nodes count as below one; --topology names them",
         common);
  return {};
}

CommonRails rails_for(const HealthPairsOptions& options, const PairTeam& team,
                      const HealthProfile& profile) {
  if (options.tcp) return {};
  CommonRails rails = common_rails(team.members, profile);
  if (!rails.rails.empty() || rails.not_of_all.empty()) return rails;
  throw VerbEnd(unclear_health,
                "the nodes have no InfiniBand device in common; --tcp measures over TCP");
}

void announce(const std::vector<PairNode>& nodes, const PairMeasureOptions& options,
              const CommonOptions& common) {
  const std::size_t rails = std::max<std::size_t>(1, nodes.front().rails.size());
  const Milliseconds round = options.time * static_cast<int>(rails);
  const SearchLimits limits;
  constexpr int usual_rounds = 3;
  notice("measures pairs of " + std::to_string(nodes.size()) + " nodes over " +
             (options.has_verbs ? "InfiniBand" : "TCP") + ": about " + elapsed_text(round) +
             " a round; " + std::to_string(usual_rounds) + " rounds (" +
             elapsed_text(round * usual_rounds) + ") find one fault, " +
             std::to_string(limits.max_rounds) + " at most",
         common);
}

PairsResult measured(const std::vector<PairNode>& nodes, const SearchSettings& settings,
                     RunOnNode& on_nodes, const PairMeasureOptions& options) {
  FaultSearch search(nodes, settings);
  PairsResult result;
  PairsMeasured found = measure_pairs(search, nodes, on_nodes, options);
  result.complaints = std::move(found.complaints);
  result.rounds = search.rounds();
  result.noise = search.noise();
  result.median_gb_per_s = search.median_gb_per_s();
  result.has_verbs = options.has_verbs;
  result.rails = nodes.front().rails;
  result.seed = settings.seed;
  for (const PairNode& node : nodes) result.nodes.push_back(node.name);
  for (const FaultVerdict& verdict : search.verdicts()) {
    if (verdict.kind != FaultKind::clean) result.verdicts.push_back(verdict);
  }
  leave_out_taken(result, found.left_out);
  return result;
}

int tell(const PairsResult& result, const HealthPairsOptions& options,
         const CommonOptions& common) {
  HealthResult told{result.at, pairs_exit(result), {HostHealth{}}};
  told.hosts.front().findings = pairs_reports(result);
  told.monitor_hosts = MonitorHosts::in_device;
  told.when_named = MonitorCode::warning;  // it drains nothing
  told.text = [&](const HealthTextForm& form) { return pairs_text(result, form); };
  told.document = [&] { return pairs_document(result); };
  return give_health(told, options.all, options.prometheus_file, common);
}

constexpr std::size_t hcas_most = 64;
constexpr std::size_t boot_id_bytes_most = 64;

// 0: it is none.
std::uint64_t guid_of(std::string_view digits) {
  std::uint64_t guid = 0;
  const auto [at, error] = std::from_chars(digits.begin(), digits.end(), guid, 16);
  return error == std::errc() && at == digits.end() ? guid : 0;
}

// "fe80:0000:0000:0000:506b:4b03:00cc:1234": the last half.
std::uint64_t guid_in(std::string gid) {
  std::erase(gid, ':');
  constexpr std::size_t half = 16;
  return gid.size() == 2 * half ? guid_of(std::string_view(gid).substr(half)) : 0;
}

// "0x506b4b0300cc1234 mlx5_0"
void note_guid(std::string_view words, NodeReadiness& found) {
  const std::size_t blank = words.find(' ');
  if (blank == words.npos || !words.starts_with("0x")) return;
  const std::uint64_t guid = guid_of(words.substr(2, blank - 2));
  if (guid != 0 && found.guids.size() < hcas_most) {
    found.guids[std::string(words.substr(blank + 1))] = guid;
  }
}

bool is_boot_id(std::string_view text) {
  return !text.empty() && text.size() <= boot_id_bytes_most &&
         text.find_first_not_of("0123456789abcdef-") == text.npos;
}

void add_usable_hcas(HealthSources& sources, NodeReadiness& readiness) {
  const SourceFiles files = infiniband_files(sources);
  for (const InfinibandPort& port : find_ports(files)) {
    const bool is_usable = is_infiniband(files, port) &&
                           !is_management_device(files, port.device) &&
                           files.text(port.path("state")) == "4: ACTIVE";
    if (!is_usable) continue;
    const std::string name = hca_name(port);
    readiness.hcas.push_back(name);
    const std::uint64_t guid = guid_in(std::string(files.text(port.path("gids/0")).value_or("")));
    if (guid != 0) readiness.guids[name] = guid;
  }
}

}  // namespace

int run_health_pairs(const HealthPairsOptions& options, const CommonOptions& common) {
  if (const std::string misuse = misuse_of(options); !misuse.empty()) {
    throw VerbEnd(usage_error, misuse);
  }
  const auto ports = ports_for(options);
  const auto known = or_end(find_targets(common));
  print_findings(known.findings, common);
  const auto target = chosen_target(known.targets, options);
  const auto profile = options.profile.empty()
                           ? target.health.value_or(HealthProfile{})
                           : or_end(named_profile(options.profile, common), invalid_file);

  const auto began = std::chrono::steady_clock::now();
  PairMeasureOptions measure;
  measure.token = new_token();
  DeskNodes desk(target, options.timeout.value_or(usual_pairs_timeout), common);
  auto team = or_end(team_of(candidates_of(target, desk, measure.token, common),
                             {options.idle_only, options.force}),
                     unclear_health);
  for (const LeftOut& one : team.left_out) notice("skipped: " + one.node + ": " + one.why, common);
  if (team.members.size() < nodes_least) {
    throw VerbEnd(unclear_health,
                  std::to_string(team.members.size()) + " of " +
                      std::to_string(target.nodes.size()) +
                      " nodes can be measured: it takes 3 to find which of a pair is slow");
  }
  const auto rails = rails_for(options, team, profile);
  for (const std::string& hca : rails.not_of_all) {
    notice("skipped: " + hca + ", which not all nodes have with an active port", common);
  }
  measure.has_verbs = !rails.rails.empty();
  const auto leaves = leaves_for(options, ports, team, rails.rails, common);
  const auto nodes = pair_nodes(team.members, rails.rails, leaves);

  measure.hosts = pair_hosts(target);
  measure.machines = pair_machines(team.members);
  measure.first_port = static_cast<int>(options.port.value_or(usual_port));
  measure.time = std::chrono::duration_cast<Seconds>(options.time.value_or(usual_time));
  measure.on_round = [&](const PairRound& round) {
    notice("round " + std::to_string(round.number) + ": " + plural(round.tests.size(), "pair"),
           common);
  };
  announce(nodes, measure, common);
  // 32 bits: a number of JSON everywhere.
  const auto settings = pair_settings(profile, measure, std::random_device{}());
  PairsResult result = measured(nodes, settings, desk, measure);
  result.at = wall_clock_now();
  result.took = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began);
  result.target = target.name;
  result.profile = profile.name;
  result.left_out.insert(result.left_out.begin(), team.left_out.begin(), team.left_out.end());
  result.busy = std::move(team.busy);
  return tell(result, options, common);
}

std::optional<NodeReadiness> read_readiness(std::string_view text) {
  NodeReadiness found;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line == ready_probe) return found;
    const std::size_t blank = line.find(' ');
    if (blank == line.npos) continue;
    const std::string_view word = line.substr(0, blank);
    const std::string rest(line.substr(blank + 1));
    if (word == "busy") found.busy = rest;
    if (word == "hca" && found.hcas.size() < hcas_most) found.hcas.push_back(rest);
    if (word == "boot" && is_boot_id(rest)) found.boot_id = rest;
    if (word == "guid") note_guid(rest, found);
  }
  return std::nullopt;
}

std::string text_of(const NodeReadiness& readiness) {
  std::string text;
  if (!readiness.busy.empty()) text += "busy " + readiness.busy + "\n";
  for (const std::string& hca : readiness.hcas) text += "hca " + hca + "\n";
  for (const auto& [hca, guid] : readiness.guids) {
    text += "guid " + text_of_guid(guid) + " " + hca + "\n";
  }
  if (!readiness.boot_id.empty()) text += "boot " + readiness.boot_id + "\n";
  return text + ready_probe + "\n";
}

int report_readiness() {
  HealthSources sources(own_sources(""));
  NodeReadiness readiness;
  readiness.busy = why_not_idle(sources);
  std::ranges::replace(readiness.busy, '\n', ' ');
  add_usable_hcas(sources, readiness);
  readiness.boot_id = sources.boot_id();
  write_all(Stream::out, text_of(readiness));
  return 0;
}

}  // namespace muster
