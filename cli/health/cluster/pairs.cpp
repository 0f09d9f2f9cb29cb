#include "cli/health/cluster/pairs.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <variant>

#include "cli/client/targets.h"
#include "cli/health/cluster/leaf_file.h"
#include "cli/health/cluster/nodes.h"
#include "cli/health/cluster/pairs_plan.h"
#include "cli/health/idle.h"
#include "cli/health/profile.h"
#include "cli/health/result.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "health/checks/infiniband/port.h"
#include "health/checks/infiniband/sources.h"
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

struct Failure {
  std::string sentence;
  int code = 0;
};
template <class T>
using OrFailure = std::variant<T, Failure>;

int failed(const Failure& failure, const CommonOptions& common) {
  complain(failure.sentence, common);
  return failure.code;
}

std::string misfit_of(const HealthPairsOptions& options) {
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

OrFailure<ComputeTarget> chosen_target(const HealthPairsOptions& options,
                                       const CommonOptions& common) {
  const auto known = find_targets(common);
  if (!known) return Failure{known.error().message, internal_error};
  print_findings(known->findings, common);
  auto targets = chosen_nodes(known->targets, options.target, options.nodes);
  if (!targets) return Failure{targets.error().message, usage_error};
  if (targets->size() > 1) {
    return Failure{"the nodes are of several compute targets: --target names one", usage_error};
  }
  ComputeTarget target = std::move(targets->front());
  const std::string lonely = unreachable_by_others(target);
  if (!lonely.empty()) {
    return Failure{"node " + lonely + " has no address that other nodes could connect to",
                   usage_error};
  }
  return target;
}

OrFailure<HealthProfile> profile_for(const HealthPairsOptions& options, const ComputeTarget& target,
                                     const CommonOptions& common) {
  if (options.profile.empty()) return target.health.value_or(HealthProfile{});
  auto profile = named_profile(options.profile, common);
  if (!profile) return Failure{profile.error().message, invalid_file};
  return std::move(*profile);
}

template <class Bytes>
Bytes random_bytes() {
  Bytes bytes{};
  check(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
        "no random bytes");
  return bytes;
}

std::string new_token() {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string token;
  for (const unsigned char byte : random_bytes<std::array<unsigned char, 16>>()) {
    token += digits[byte / 16];
    token += digits[byte % 16];
  }
  return token;
}

// Small enough to be a number of JSON everywhere.
std::uint64_t new_seed() {
  const auto bytes = random_bytes<std::array<unsigned char, 4>>();
  std::uint32_t seed = 0;
  std::memcpy(&seed, bytes.data(), sizeof seed);
  return seed;
}

Result<std::vector<PairCandidate>> candidates_of(const ComputeTarget& target, DeskNodes& nodes,
                                                 const std::string& token,
                                                 const CommonOptions& common) {
  const auto jobs = jobs_on_nodes(common);
  if (!jobs) return jobs.error();
  std::vector<PairCandidate> candidates;
  std::vector<NodeCommand> commands;
  for (const NodeAddress& node : target.nodes) {
    const auto job = jobs->find(node.id.value);
    if (job != jobs->end()) {
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

OrFailure<std::vector<HcaPort>> ports_for(const HealthPairsOptions& options) {
  std::vector<HcaPort> ports;
  for (const std::string& hca : options.hcas) {
    const auto port = read_hca_port(hca);
    if (!port) return Failure{"--hca: " + port.error().message, usage_error};
    ports.push_back(*port);
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

OrFailure<LeafOfNode> leaves_for(const HealthPairsOptions& options,
                                 const std::vector<HcaPort>& ports, const PairTeam& team,
                                 const std::vector<std::string>& rails,
                                 const CommonOptions& common) {
  if (!options.leaves.empty()) {
    const auto text = read_input(options.leaves, leaves_bytes_most);
    if (!text) return Failure{text.error().message, invalid_file};
    auto leaves = read_leaves(*text);
    if (!leaves) return Failure{options.leaves + ": " + leaves.error().message, invalid_file};
    return std::move(*leaves);
  }
  if (rails.empty()) return LeafOfNode{};
  auto leaves = ask_leaves(ports, team, rails);
  if (leaves) return std::move(*leaves);
  notice("leaf switches are not known (" + leaves.error().message +
             "): all nodes count as below one; --topology names them",
         common);
  return LeafOfNode{};
}

OrFailure<CommonRails> rails_for(const HealthPairsOptions& options, const PairTeam& team,
                                 const HealthProfile& profile) {
  if (options.tcp) return CommonRails{};
  CommonRails rails = common_rails(team.members, profile);
  if (!rails.rails.empty() || rails.not_of_all.empty()) return rails;
  return Failure{"the nodes have no InfiniBand device in common; --tcp measures over TCP",
                 unclear_health};
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

void tell_round(const PairRound& round, const CommonOptions& common) {
  const std::size_t pairs = round.tests.size();
  notice("round " + std::to_string(round.number) + ": " + std::to_string(pairs) +
             (pairs == 1 ? " pair" : " pairs"),
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
constexpr std::string_view busy_word = "busy ";
constexpr std::string_view hca_word = "hca ";
constexpr std::string_view guid_word = "guid ";
constexpr std::string_view boot_word = "boot ";
constexpr std::size_t boot_id_bytes_most = 64;

std::string after(std::string_view line, std::string_view word) {
  return std::string(line.substr(word.size()));
}

// "fe80:0000:0000:0000:506b:4b03:00cc:1234": the last half.
std::uint64_t guid_in(std::string_view gid) {
  std::string digits;
  for (const char c : gid) {
    if (c != ':') digits += c;
  }
  constexpr std::size_t half = 16;
  if (digits.size() != 2 * half) return 0;
  std::uint64_t guid = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data() + half, end, guid, 16);
  return error == std::errc() && at == end ? guid : 0;
}

void note_guid(std::string_view words, NodeReadiness& found) {
  std::uint64_t guid = 0;
  const std::size_t blank = words.find(' ');
  if (blank == words.npos || !words.starts_with("0x")) return;
  const char* end = words.data() + blank;
  const auto [at, error] = std::from_chars(words.data() + 2, end, guid, 16);
  const bool is_guid = error == std::errc() && at == end && guid != 0;
  if (is_guid && found.guids.size() < hcas_most)
    found.guids[std::string(words.substr(blank + 1))] = guid;
}

bool is_boot_id(std::string_view text) {
  return !text.empty() && text.size() <= boot_id_bytes_most &&
         text.find_first_not_of("0123456789abcdef-") == text.npos;
}

void add_usable_hcas(HealthSources& sources, NodeReadiness& readiness) {
  NodeReadRequest request;
  for (const std::string_view one : infiniband_state_sources()) request.sources.emplace_back(one);
  const SourceFiles files = sources.read(std::move(request)).files;
  for (const InfinibandPort& port : find_ports(files)) {
    const bool is_usable = !is_virtual_function(files, port.device) &&
                           !is_management_device(files, port.device) &&
                           files.text(port.path("link_layer")) == "InfiniBand" &&
                           files.text(port.path("state")) == "4: ACTIVE";
    if (!is_usable) continue;
    const std::string name = port.number == "1" ? port.device : port.name();
    readiness.hcas.push_back(name);
    const std::uint64_t guid = guid_in(files.text(port.path("gids/0")).value_or(""));
    if (guid != 0) readiness.guids[name] = guid;
  }
}

}  // namespace

int run_health_pairs(const HealthPairsOptions& options, const CommonOptions& common) {
  std::string misfit = misused_query(common);
  if (misfit.empty()) misfit = misfit_of(options);
  if (!misfit.empty()) return failed({misfit, usage_error}, common);
  const auto ports = ports_for(options);
  if (const auto* no = std::get_if<Failure>(&ports)) return failed(*no, common);
  auto chosen = chosen_target(options, common);
  if (const auto* no = std::get_if<Failure>(&chosen)) return failed(*no, common);
  const auto& target = std::get<ComputeTarget>(chosen);
  auto known = profile_for(options, target, common);
  if (const auto* no = std::get_if<Failure>(&known)) return failed(*no, common);
  const auto& profile = std::get<HealthProfile>(known);

  const auto began = std::chrono::steady_clock::now();
  PairMeasureOptions measure;
  measure.token = new_token();
  DeskNodes desk(target, options.timeout.value_or(usual_pairs_timeout), common);
  auto candidates = candidates_of(target, desk, measure.token, common);
  if (!candidates) return failed({candidates.error().message, internal_error}, common);
  auto team = team_of(std::move(*candidates), {options.idle_only, options.force});
  if (!team) return failed({team.error().message, unclear_health}, common);
  for (const LeftOut& one : team->left_out) notice("skipped: " + one.node + ": " + one.why, common);
  if (team->members.size() < nodes_least) {
    return failed(
        {std::to_string(team->members.size()) + " of " + std::to_string(target.nodes.size()) +
             " nodes can be measured: it takes 3 to find which of a pair is slow",
         unclear_health},
        common);
  }
  const auto rails = rails_for(options, *team, profile);
  if (const auto* no = std::get_if<Failure>(&rails)) return failed(*no, common);
  const auto& [in_common, not_of_all] = std::get<CommonRails>(rails);
  for (const std::string& hca : not_of_all) {
    notice("skipped: " + hca + ", which not all nodes have with an active port", common);
  }
  measure.has_verbs = !in_common.empty();
  const auto leaves =
      leaves_for(options, std::get<std::vector<HcaPort>>(ports), *team, in_common, common);
  if (const auto* no = std::get_if<Failure>(&leaves)) return failed(*no, common);
  const auto nodes = pair_nodes(team->members, in_common, std::get<LeafOfNode>(leaves));

  measure.hosts = pair_hosts(target);
  measure.machines = pair_machines(team->members);
  measure.first_port = static_cast<int>(options.port.value_or(usual_port));
  measure.time = std::chrono::duration_cast<Seconds>(options.time.value_or(usual_time));
  measure.on_round = [&](const PairRound& round) { tell_round(round, common); };
  announce(nodes, measure, common);
  const auto settings = pair_settings(profile, measure, new_seed());
  PairsResult result = measured(nodes, settings, desk, measure);
  result.at = wall_clock_now();
  result.took = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began);
  result.target = target.name;
  result.profile = profile.name;
  result.left_out.insert(result.left_out.begin(), team->left_out.begin(), team->left_out.end());
  result.busy = std::move(team->busy);
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
    if (line.starts_with(busy_word)) found.busy = after(line, busy_word);
    if (line.starts_with(hca_word) && found.hcas.size() < hcas_most) {
      found.hcas.push_back(after(line, hca_word));
    }
    if (line.starts_with(boot_word) && is_boot_id(line.substr(boot_word.size()))) {
      found.boot_id = after(line, boot_word);
    }
    if (line.starts_with(guid_word)) note_guid(line.substr(guid_word.size()), found);
  }
  return std::nullopt;
}

std::string text_of(const NodeReadiness& readiness) {
  std::string text;
  if (!readiness.busy.empty()) text += std::string(busy_word) + readiness.busy + "\n";
  for (const std::string& hca : readiness.hcas) text += std::string(hca_word) + hca + "\n";
  for (const auto& [hca, guid] : readiness.guids) {
    text += std::string(guid_word) + text_of_guid(guid) + " " + hca + "\n";
  }
  if (!readiness.boot_id.empty()) text += std::string(boot_word) + readiness.boot_id + "\n";
  return text + ready_probe + "\n";
}

int tell_readiness() {
  HealthSources sources(own_sources(""));
  NodeReadiness readiness;
  readiness.busy = why_not_idle(sources);
  for (char& c : readiness.busy) {
    if (c == '\n') c = ' ';
  }
  add_usable_hcas(sources, readiness);
  readiness.boot_id = sources.boot_id();
  write_all(Stream::out, text_of(readiness));
  return 0;
}

}  // namespace muster
