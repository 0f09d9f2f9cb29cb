// `muster nodes`, `drain`, `undrain`: the machines, and keeping new work away from one.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/client/start.h"
#include "cli/client/targets.h"
#include "cli/job/node_table.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/spelling.h"

namespace muster {

namespace {

NodesAnswer known_to_controller(const Home& home, int exit_code, const CommonOptions& common) {
  const auto answer = or_end(ask_controller(home, AskNodes{}, common), exit_code);
  if (const auto* nodes = std::get_if<NodesAnswer>(&answer)) return *nodes;
  throw VerbEnd(exit_code, "the controller gave an unexpected answer");
}

void report_breakers(const std::vector<BreakerLine>& breakers, const CommonOptions& common) {
  for (const BreakerLine& breaker : breakers) {
    const std::string what = breaker.is_check ? " drains no node for " + breaker.target
                                              : " cordons no node of " + breaker.target;
    notice("since " + local_text(breaker.since) + " muster" + what + ": " + breaker.reason +
               "; once fixed, run: muster nodes --reset-breaker " + breaker.target,
           common);
  }
}

int rearm(const std::string& target, const CommonOptions& common) {
  accepted_or_end(Home::from_environment(), ResetBreaker{target}, "", common);
  notice("what " + target + " fails from now on counts again", common);
  return 0;
}

// The simulated nodes of this machine are only shown once they have been used.
bool is_built_in(const ComputeTarget& target) {
  return target.name == "local" || target.name == "local-cluster";
}

int show_nodes(const CommonOptions& common) {
  auto known = known_to_controller(Home::from_environment(), internal_error, common);
  report_breakers(known.breakers, common);
  std::vector<NodeLine>& nodes = known.nodes;
  const auto targets = or_end(find_targets(common), invalid_file);
  print_findings(targets.findings, common);
  const int read = has_errors(targets.findings) ? invalid_file : 0;
  std::erase_if(nodes, [](const NodeLine& node) { return !is_worth_showing(node); });
  std::set<std::string> shown;
  for (const NodeLine& node : nodes) shown.insert(node.node);
  for (const ComputeTarget& target : targets.targets) {
    for (const NodeAddress& node : target.nodes) {
      if (is_built_in(target) || !shown.insert(node.id.value).second) continue;
      NodeLine line;
      line.node = node.id.value;
      line.link = "not connected";
      line.host_name = node.host;
      nodes.push_back(std::move(line));
    }
  }
  sort_by_name(nodes);
  const int printed =
      print_result(nodes_document(nodes), nodes.empty() ? "" : table_of_nodes(nodes).text(common),
                   common, "no nodes yet: no cluster file, and no job has run");
  return printed != 0 ? printed : read;
}

struct DrainOptions {
  bool drained = false;
  std::string node;
  std::string reason;
  std::optional<Milliseconds> move_after;
};

void check_node_name(const std::string& node, const KnownTargets& targets, const Home& home,
                     const CommonOptions& common) {
  std::vector<std::string> names;
  const NodesAnswer nodes = known_to_controller(home, usage_error, common);
  for (const NodeLine& known : nodes.nodes) names.push_back(known.node);
  std::ranges::move(all_node_names(targets.targets), std::back_inserter(names));
  if (std::ranges::find(names, node) != names.end()) return;
  throw VerbEnd(usage_error, "there is no node '" + node + "'; " +
                                 did_you_mean(node, names, "`muster nodes` lists them"));
}

int set_drain(const DrainOptions& options, const CommonOptions& common) {
  const bool drained = options.drained;
  if (drained && options.reason.find_first_not_of(" \t\n") == std::string::npos) {
    throw VerbEnd(usage_error, "--reason: it is empty; say why, for the record");
  }
  const Home home = Home::from_environment();
  const auto targets = or_end(find_targets(common), invalid_file);
  check_node_name(options.node, targets, home, common);
  const SetDrain request{NodeId{options.node}, drained, options.reason, options.move_after};
  const Accepted accepted = accepted_or_end(home, request, "", common);
  const std::string done = options.node + (drained ? " drained" : " resumed");
  notice(accepted.note.empty() ? done : accepted.note, common);
  if (wants_table(common)) return 0;
  return print_document(
      Document{{"name", options.node}, {"drained", drained}, {"drain_reason", options.reason}},
      common);
}

}  // namespace

void add_nodes(CommandLine& line) {
  line.verb<std::string>(
      {"nodes", "Show the nodes, their links and who uses them"},
      [](const std::string& target, const CommonOptions& common) {
        return target.empty() ? show_nodes(common) : rearm(target, common);
      },
      [](Arguments& of, std::string& target) {
        of.option("--reset-breaker", target, "Reset the breaker of TARGET, CHECK@TARGET or CHECK");
      });
}

void add_drain(CommandLine& line) {
  line.verb<DrainOptions>({"drain", "Give a node no new jobs; running jobs continue"}, set_drain,
                          [](Arguments& of, DrainOptions& options) {
                            options.drained = true;
                            of.argument("NODE", options.node, "Node name");
                            of.option("--reason", options.reason, "Reason, kept in the record");
                            of.require("--reason");
                            of.option("--move-after", options.move_after,
                                      "Move jobs that still run there after this time (0: now)");
                          });
  line.verb<DrainOptions>(
      {"undrain", "Resume a drained or cordoned node"}, set_drain,
      [](Arguments& of, DrainOptions& options) { of.argument("NODE", options.node, "Node name"); });
}

}  // namespace muster
