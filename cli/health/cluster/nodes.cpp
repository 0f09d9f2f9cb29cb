#include "cli/health/cluster/nodes.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <variant>

#include <nlohmann/json.hpp>

#include "cli/client/start.h"
#include "cli/client/targets.h"
#include "cli/health/benchmark.h"
#include "cli/health/cluster/compare.h"
#include "cli/health/profile.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "health/benchmark/plan.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/host_list.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// A first login takes seconds on a loaded host, and the checks some more.
constexpr Milliseconds usual_node_timeout{30'000};
constexpr Milliseconds longest_node_timeout{600'000};
// Until a node that is to be measured is reached: its first agent is pushed there.
constexpr Milliseconds reach_timeout{60'000};
// A full load may take two hours.
constexpr Milliseconds longest_measuring{3 * 3'600'000};
// What its program needs beside the probes, and probes of more devices than were expected.
constexpr std::chrono::seconds measuring_margin{120};
// The controller answers for each node in time; one that does not is stuck.
constexpr Milliseconds patience{10'000};
// Before the reason, of a node of which a measurement says nothing.
constexpr const char* not_started = "not started: ";

// What is for this host alone.
std::string misplaced(const HealthRunOptions& options) {
  if (!options.root.empty()) return "--root";
  if (!options.state.empty()) return "--state";
  if (options.forget) return "--no-state";
  if (options.slurm) return "--slurm";
  if (options.beside_ranks) return "--during-job";
  if (options.profile_alone) return "--no-base-profile";
  if (options.measured && options.measured->force) return "--force";
  return {};
}

void check_options(const HealthRunOptions& options) {
  check_patterns(options.checks);
  if (options.measured) checked_benchmarks(*options.measured);
  const std::string option = misplaced(options);
  if (!option.empty()) throw VerbEnd(usage_error, option + " is for this host, not for nodes");
  const Milliseconds timeout = options.timeout.value_or(usual_node_timeout);
  const Milliseconds longest = options.measured ? longest_measuring : longest_node_timeout;
  if (timeout <= Milliseconds{0} || timeout > longest) {
    throw VerbEnd(usage_error,
                  "--timeout: expected more than 0 and at most " + elapsed_text(longest));
  }
  const bool wants_disk =
      options.measured && std::ranges::count(options.measured->only, "disk") > 0;
  if (wants_disk && options.measured->disk.empty()) {
    throw VerbEnd(usage_error, "--only disk: --disk names where");
  }
}

struct Question {
  std::variant<LookAtNodes, MeasureNodes> request;
  Milliseconds answered_within{0};                // all nodes
  std::map<std::string, std::string> target_of;   // each node
  std::map<std::string, HealthProfile> profiles;  // of targets that have one
  // Of a measurement, by target: the checks that are unknown where nothing was measured.
  std::map<std::string, std::vector<std::string>> checks{};
};

std::vector<NodesMeant> meant(const std::vector<ComputeTarget>& targets, Question& question,
                              const std::optional<HealthProfile>& profile) {
  std::vector<NodesMeant> nodes;
  for (const ComputeTarget& target : targets) {
    const std::optional<HealthProfile>& used = profile ? profile : target.health;
    nodes.push_back({target, used ? write_health_profile(*used) : ""});
    if (used) question.profiles[target.name] = *used;
    for (const NodeAddress& node : target.nodes) question.target_of[node.id.value] = target.name;
  }
  return nodes;
}

Question question_of(const std::vector<ComputeTarget>& targets,
                     const std::optional<HealthProfile>& profile, const HealthRunOptions& options) {
  Question question;
  LookAtNodes request;
  request.nodes = meant(targets, question, profile);
  request.wanted = {options.phase, options.checks, options.quick, options.idle};
  request.timeout = options.timeout.value_or(usual_node_timeout);
  question.answered_within = request.timeout;
  question.request = std::move(request);
  return question;
}

// What a node of the target will be measured with; one without a profile, at most with that.
ProbePlan plan_for(const Question& question, const std::string& target,
                   const BenchmarksAsked& wanted) {
  const auto known = question.profiles.find(target);
  const bool is_known = known != question.profiles.end();
  ProbeSituation expected{!is_known && wanted.only.empty(), wanted.only};
  if (wanted.burn_minutes) expected.verify = std::chrono::minutes(*wanted.burn_minutes);
  expected.disk_directory = wanted.disk;
  return expected_plan(is_known ? known->second : HealthProfile{}, expected);
}

std::vector<std::string> checks_of(const ProbePlan& plan) {
  std::set<std::string> checks;
  for (const PlannedProbe& probe : plan.probes) {
    for (const std::string& metric : probe.metrics) {
      checks.emplace(find_performance_metric(metric)->check);
    }
  }
  return {checks.begin(), checks.end()};
}

// Before it is asked: how long it takes.
void announce(const ComputeTarget& target, const ProbePlan& plan, bool has_profile,
              const CommonOptions& common) {
  const std::string nodes = plural(target.nodes.size(), "node") + " of " + target.name;
  if (plan.probes.empty()) {
    return notice(nodes +
                      ": the profile has no minimum for a benchmark of one node: nothing is "
                      "measured; --only measures without one",
                  common);
  }
  const std::string which =
      has_profile ? "" : "what the profiles found there have a minimum for, of ";
  notice("measures " + nodes + ", side by side: " + which + cost_text(plan), common);
}

Question measuring_question(const std::vector<ComputeTarget>& targets,
                            const std::optional<HealthProfile>& profile,
                            const HealthRunOptions& options, const CommonOptions& common) {
  const BenchmarksAsked wanted = checked_benchmarks(*options.measured);
  Question question;
  MeasureNodes request;
  request.nodes = meant(targets, question, profile);
  std::chrono::seconds longest{0};
  for (const ComputeTarget& target : targets) {
    const bool has_profile = question.profiles.contains(target.name) || !wanted.only.empty();
    const ProbePlan plan = plan_for(question, target.name, wanted);
    announce(target, plan, has_profile, common);
    longest = std::max(longest, longest_time_of(plan));
    if (has_profile) question.checks[target.name] = checks_of(plan);
  }
  for (const std::string& probe : wanted.only) request.words.push_back("--only=" + probe);
  if (wanted.burn_minutes)
    request.words.push_back("--burn-minutes=" + std::to_string(*wanted.burn_minutes));
  if (!wanted.disk.empty()) request.words.push_back("--disk=" + wanted.disk);
  request.limit = options.timeout.value_or(longest + measuring_margin);
  request.timeout = std::min(reach_timeout, options.timeout.value_or(reach_timeout));
  question.answered_within = request.timeout + request.limit;
  question.request = std::move(request);
  return question;
}

HealthProfile profile_of(const Question& question, const HostHealth& answer) {
  const auto known = question.profiles.find(answer.target);
  if (known != question.profiles.end()) return known->second;
  const ShippedProfile* shipped = find_shipped_profile(answer.profile.value_or(""));
  return shipped == nullptr ? HealthProfile{} : profile_of(*shipped);
}

// Nodes cannot be forced from here.
std::string without_hint(std::string why) {
  if (why.ends_with(force_hint)) why.resize(why.size() - force_hint.size());
  return why;
}

// Why not all answered; empty: all did.
struct Unanswered {
  std::string why;
  std::optional<Refused> refused;  // the controller said so instead of asking them
};

// Gives the answers to `take` while some are waited for, and the controller neither goes away nor
// stays silent.
template <class Request>
Unanswered ask_nodes(ControllerClient& client, const Request& request, Milliseconds within,
                     const std::function<bool()>& is_waiting,
                     const std::function<void(const NodeLooked&, std::string)>& take) {
  if (const auto sent = client.send(request); !sent) return {sent.error().message, {}};
  const auto deadline = Clock::now() + within + patience;
  while (is_waiting()) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
    auto message = client.receive(std::max(left, Milliseconds{0}));
    if (!message) return {message.error().message, {}};
    if (!*message) return {"the controller gave no answer", {}};
    if (const auto* no = std::get_if<Refused>(&(*message)->message)) return {no->message, *no};
    if (const auto* one = std::get_if<NodeLooked>(&(*message)->message)) {
      take(*one, std::move((*message)->payload));
    }
  }
  return {};
}

HostHealth answer_of(const Question& question, const NodeLooked& looked, const std::string& node,
                     const std::string& target, const std::string& payload) {
  const std::string now = utc_text(wall_clock_now());
  if (looked.error.empty()) return read_answer(node, target, payload, now);
  const bool measures = std::holds_alternative<MeasureNodes>(question.request);
  if (!measures) return no_answer(node, target, looked.error, now);
  if (!looked.is_reached) return no_answer(node, target, not_started + looked.error, now);
  const auto checks = question.checks.find(target);
  const bool is_known = checks != question.checks.end() && !checks->second.empty();
  const std::string what = looked.is_started ? "not measured: " : not_started;
  return not_measured(node, target, what + without_hint(looked.error),
                      is_known ? checks->second : std::vector<std::string>{"perf.cpu"}, now);
}

// An answer for each node. A controller that refuses to ask them ends the verb.
std::vector<HostHealth> ask_all(ControllerClient client, const Question& question) {
  std::map<std::string, std::string> waiting = question.target_of;
  std::vector<HostHealth> answers;
  const auto take = [&](const NodeLooked& looked, const std::string& payload) {
    const auto found = waiting.find(looked.node.value);
    if (found == waiting.end()) return;
    const auto& [node, target] = *found;
    HostHealth& answer = answers.emplace_back(answer_of(question, looked, node, target, payload));
    // A look of its own may see no reason any more: it gets no job all the same.
    if (!looked.drained.empty() && answer.fitness != NodeFitness::drained) {
      answer.fitness = NodeFitness::drained;
      answer.why = looked.drained;
    }
    waiting.erase(found);
  };
  const auto ask = [&](const auto& request) {
    return ask_nodes(
        client, request, question.answered_within, [&] { return !waiting.empty(); }, take);
  };
  const Unanswered without = std::visit(ask, question.request);
  if (without.refused) throw VerbEnd(without.refused->exit_code, without.why);
  for (const auto& [node, target] : waiting) {
    answers.push_back(no_answer(node, target, without.why, utc_text(wall_clock_now())));
  }
  return answers;
}

[[noreturn]] void end_for_unknown(const std::string& name, const std::vector<std::string>& names) {
  // `muster health lern`: where a verb may stand as well.
  const std::vector<std::string> verbs{"run",   "benchmark", "checks", "fabric",
                                       "learn", "pairs",     "record", "profiles"};
  const std::string verb = nearest(name, verbs);
  const std::string other =
      verb.empty() ? "`muster nodes` lists them" : "did you mean `muster health " + verb + "`?";
  throw VerbEnd(usage_error,
                "there is no node " + quoted_text(name) + "; " + did_you_mean(name, names, other));
}

std::vector<std::string> nodes_of(const std::string& word, const std::vector<std::string>& names) {
  const bool is_pattern = word.find('*') != word.npos;
  std::vector<std::string> meant;
  if (is_pattern) {
    std::ranges::copy_if(names, std::back_inserter(meant),
                         [&](const std::string& name) { return fits_pattern(word, name); });
    if (meant.empty()) end_for_unknown(word, names);
    return meant;
  }
  meant = or_end(expand_hosts(word), usage_error);
  for (const std::string& name : meant) {
    if (std::ranges::find(names, name) == names.end()) end_for_unknown(name, names);
  }
  return meant;
}

std::vector<ComputeTarget> candidates(const std::vector<ComputeTarget>& targets,
                                      const std::string& wanted) {
  if (wanted.empty()) return targets;
  std::vector<std::string> names;
  for (const ComputeTarget& target : targets) {
    if (target.name == wanted) return {target};
    names.push_back(target.name);
  }
  throw VerbEnd(usage_error, "there is no compute target " + quoted_text(wanted) + "; " +
                                 did_you_mean(wanted, names, "there are " + joined(names)));
}

}  // namespace

int run_health_nodes(const HealthRunOptions& options, const CommonOptions& common) {
  check_options(options);
  std::optional<HealthProfile> profile;
  if (!options.profile.empty()) {
    profile = or_end(named_profile(options.profile, common), invalid_file);
  }
  const auto known = or_end(find_targets(common));
  print_findings(known.findings, common);
  const auto targets = chosen_nodes(known.targets, options.target, options.nodes);
  const Question question = options.measured ? measuring_question(targets, profile, options, common)
                                             : question_of(targets, profile, options);
  HealthResult result;
  result.hosts = ask_all(or_end(ensure_controller(Home::from_environment(), common)), question);
  result.at = wall_clock_now();
  const auto kind = [&](const HostHealth& answer) { return profile_of(question, answer); };
  compare_nodes(result.hosts, options.checks, kind, result.at);
  compare_figures(result.hosts, kind, result.at);
  sort_worst_first(result.hosts);
  result.exit = health_exit(result.hosts);
  result.monitor_hosts = MonitorHosts::told;
  result.text = [&](const HealthTextForm& form) { return nodes_text(result.hosts, form); };
  result.document = [&] { return nodes_document(result.hosts); };
  return give_health(result, options.all, options.prometheus_file, common);
}

MeasureNodes probes_of(const ComputeTarget& target, const std::vector<NodeCommand>& commands,
                       Milliseconds reach) {
  MeasureNodes request;
  request.timeout = reach;
  std::set<std::string> meant;
  for (const NodeCommand& command : commands) {
    meant.insert(command.node);
    request.token = command.token;
    request.probes.push_back({NodeId{command.node}, command.words, command.deadline});
  }
  NodesMeant nodes{target, {}};
  std::erase_if(nodes.target.nodes,
                [&](const NodeAddress& node) { return !meant.contains(node.id.value); });
  request.nodes = {std::move(nodes)};
  return request;
}

Result<JobOfNode> jobs_on_nodes(const CommonOptions& common) {
  const auto answer = ask_controller(Home::from_environment(), AskNodes{}, common);
  if (!answer) return answer.error();
  const auto* known = std::get_if<NodesAnswer>(&*answer);
  if (known == nullptr) return Error{"the controller does not say what runs on the nodes"};
  JobOfNode jobs;
  for (const NodeLine& line : known->nodes) {
    if (!line.owner.empty()) jobs[line.node] = line.owner;
  }
  return jobs;
}

std::vector<NodeOutput> DeskNodes::run(const std::vector<NodeCommand>& commands) {
  std::vector<NodeOutput> outputs = ask(commands);
  const auto failed = [](const NodeOutput& one) { return !one.error.empty(); };
  if (std::ranges::none_of(outputs, failed)) return outputs;
  const auto jobs = jobs_on_nodes(common_);
  if (!jobs) return outputs;
  // Nodes that a job got meanwhile: that their probes ended is not their fault.
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const auto job = jobs->find(commands[i].node);
    if (job == jobs->end() || outputs[i].is_void) continue;
    outputs[i] = {"", "job " + job->second + " got it during the measurement", true};
  }
  return outputs;
}

std::vector<NodeOutput> DeskNodes::ask(const std::vector<NodeCommand>& commands) {
  std::vector<std::optional<NodeOutput>> told(commands.size());
  std::size_t missing = commands.size();
  Milliseconds longest{0};
  for (const NodeCommand& one : commands) longest = std::max<Milliseconds>(longest, one.deadline);
  const auto take = [&](const NodeLooked& looked, std::string payload) {
    const auto place = static_cast<std::size_t>(looked.place);
    if (place >= told.size() || told[place]) return;
    const std::string error = looked.is_started ? looked.error : not_started + looked.error;
    told[place] = NodeOutput{std::move(payload), error, looked.is_void};
    --missing;
  };
  const auto is_waiting = [&] { return missing > 0; };
  auto client = ensure_controller(Home::from_environment(), common_);
  const std::string lost = !client ? client.error().message
                                   : ask_nodes(*client, probes_of(target_, commands, reach_),
                                               reach_ + longest, is_waiting, take)
                                         .why;
  std::vector<NodeOutput> outputs;
  for (auto& one : told) outputs.push_back(one ? std::move(*one) : NodeOutput{"", lost, false});
  return outputs;
}

std::vector<ComputeTarget> chosen_nodes(const std::vector<ComputeTarget>& targets,
                                        const std::string& target,
                                        const std::vector<std::string>& words) {
  std::vector<ComputeTarget> from = candidates(targets, target);
  const std::vector<std::string> names = all_node_names(from);
  std::set<std::string> meant;
  for (const std::string& word : words) {
    for (std::string& node : nodes_of(word, names)) meant.insert(std::move(node));
  }
  std::set<std::string> taken;
  for (ComputeTarget& each : from) {
    std::erase_if(each.nodes, [&](const NodeAddress& node) {
      const bool is_meant = words.empty() || meant.contains(node.id.value);
      return !is_meant || !taken.insert(node.id.value).second;
    });
  }
  std::erase_if(from, [](const ComputeTarget& each) { return each.nodes.empty(); });
  if (!from.empty()) return from;
  throw VerbEnd(usage_error, "compute target " + quoted_text(target) + " has no nodes");
}

}  // namespace muster
