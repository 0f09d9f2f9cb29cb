#include "health/fault_isolation/measure.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "health/benchmark/plan.h"
#include "health/benchmark/samples.h"

namespace muster {

namespace {

constexpr double bits_of_a_byte = 8;
// A bandwidth and a latency of each HCA, on ports of their own.
constexpr int ports_of_an_hca = 2;
// Half of what makes a pair a slow one.
constexpr double waited_pct_max = 2.5;
// More would repeat themselves: what is wrong with one node is wrong with each of its tests.
constexpr std::size_t failures_told_max = 64;

const char* metric_of(const PairMeasureOptions& options) {
  return options.has_verbs ? "ib_write_bw_host_gbps" : "tcp_gbps";
}

std::vector<std::string> hcas_of(const PairTest& test, const PairNode& node) {
  if (!test.rail) return node.rails;
  return *test.rail < node.rails.size() ? std::vector{node.rails[*test.rail]}
                                        : std::vector<std::string>{};
}

int ports_of(const PairTest& test, const std::vector<PairNode>& nodes) {
  const std::size_t hcas = std::max<std::size_t>(1, hcas_of(test, nodes[test.a]).size());
  return ports_of_an_hca * static_cast<int>(hcas);
}

std::string host_of(const std::string& node, const PairMeasureOptions& options) {
  const auto found = options.hosts.find(node);
  return found == options.hosts.end() ? node : found->second;
}

std::string name_of(const PairTest& test, const std::vector<PairNode>& nodes) {
  const std::string rail = test.rail && *test.rail < nodes[test.a].rails.size()
                               ? " " + nodes[test.a].rails[*test.rail]
                               : "";
  return nodes[test.a].name + " " + nodes[test.b].name + rail;
}

std::string why_none(const NodeOutput& serving, const NodeOutput& connecting,
                     const std::string& metric) {
  const ProbeOutput said = read_probe_output(connecting.lines);
  for (const PerformanceSample& sample : said.samples) {
    if (sample.metric == metric && !sample.value) return sample.error;
  }
  if (!connecting.error.empty()) return connecting.error;
  return serving.error.empty() ? "its benchmark printed nothing" : serving.error;
}

}  // namespace

PairCommands commands_of(const PairTest& test, const std::vector<PairNode>& nodes, int port,
                         const PairMeasureOptions& options) {
  const ProbeSpec* spec = find_probe(options.has_verbs ? "ib-pair" : "tcp");
  const auto probe_of = [&](const PairNode& node) {
    PlannedProbe probe{spec, {std::string(spec->name)}, {}};
    if (options.has_verbs) std::ranges::copy(hcas_of(test, node), std::back_inserter(probe.words));
    return probe;
  };
  const int times = options.has_verbs ? ports_of(test, nodes) / ports_of_an_hca : 1;
  const auto deadline = options.time * times + spec->limit;
  const PairNode& a = nodes[test.a];
  const PairNode& b = nodes[test.b];
  PairCommands commands{{a.name, serving_words(probe_of(a), port), options.token, deadline},
                        {b.name, connecting_words(probe_of(b), host_of(a.name, options), port),
                         options.token, deadline}};
  for (NodeCommand* command : {&commands.serve, &commands.connect}) {
    // Of a serving TCP they would be how long it waits for its partner.
    if (command == &commands.connect || options.has_verbs)
      command->words.insert(command->words.end(),
                            {"--seconds", std::to_string(options.time.count())});
  }
  return commands;
}

PairResult result_of(const PairTest& test, const std::vector<PairNode>& nodes,
                     const NodeOutput& connecting, const PairMeasureOptions& options) {
  const std::size_t wanted = options.has_verbs ? hcas_of(test, nodes[test.b]).size() : 1;
  PairResult result{test, std::nullopt};
  std::size_t told = 0;
  std::optional<double> slowest;
  for (const PerformanceSample& sample : read_probe_output(connecting.lines).samples) {
    if (sample.metric != metric_of(options) || !sample.value) continue;
    ++told;
    slowest = slowest ? std::min(*slowest, *sample.value) : *sample.value;
  }
  if (slowest && told >= wanted) result.gb_per_s = *slowest / bits_of_a_byte;
  return result;
}

namespace {

// Of which it has the ports: a machine may have several addresses. One that nobody knows is told by
// its address.
std::string machine_of(const std::string& node, const PairMeasureOptions& options) {
  const auto found = options.machines.find(node);
  return found == options.machines.end() ? "at " + host_of(node, options) : found->second;
}

// Nodes side by side may have the same ports; those that share a machine do not.
std::vector<NodeCommand> commands_of(const PairRound& round, const std::vector<PairNode>& nodes,
                                     const PairMeasureOptions& options) {
  std::vector<NodeCommand> commands;
  std::map<std::string, int> ports;  // by machine: the next one
  for (const PairTest& test : round.tests) {
    const std::string machine = machine_of(nodes[test.a].name, options);
    int& port = ports.emplace(machine, options.first_port).first->second;
    PairCommands both = commands_of(test, nodes, port, options);
    port += ports_of(test, nodes);
    commands.push_back(std::move(both.serve));
    commands.push_back(std::move(both.connect));
  }
  return commands;
}

// Who had somebody else meanwhile, or no processor for its probe, tells nothing of the way between
// two; what is as fast as the others nobody held up. False: the test counts for nobody.
bool counts(const PairResult& result, double fastest, const NodeOutput& serving,
            const NodeOutput& connecting, const std::vector<PairNode>& nodes, FaultSearch& search,
            PairsMeasured& measured) {
  const bool is_void = serving.is_void || connecting.is_void;
  const double doubtful = fastest * (1 - SearchLimits{}.doubtful_below_median);
  const bool was_held_up = !is_void && !(result.gb_per_s && *result.gb_per_s >= doubtful);
  bool are_both_free = true;
  for (const auto& [node, output] :
       {std::pair(result.test.a, &serving), std::pair(result.test.b, &connecting)}) {
    const double waited_pct = was_held_up ? read_probe_output(output->lines).waited_pct : 0;
    if (!output->is_void && waited_pct < waited_pct_max) continue;
    are_both_free = false;
    search.leave_out(node);
    measured.left_out.emplace(nodes[node].name,
                              output->is_void
                                  ? output->error
                                  : "busy: its benchmark waited for a processor for " +
                                        std::to_string(std::lround(waited_pct)) + " % of the time");
  }
  return are_both_free;
}

}  // namespace

PairsMeasured measure_pairs(FaultSearch& search, const std::vector<PairNode>& nodes,
                            RunOnNode& on_nodes, const PairMeasureOptions& options) {
  PairsMeasured measured;
  while (const auto round = search.next_round()) {
    if (options.on_round) options.on_round(*round);
    const std::vector<NodeCommand> commands = commands_of(*round, nodes, options);
    std::vector<NodeOutput> outputs = on_nodes.run(commands);
    outputs.resize(commands.size(), {"", "there is no answer"});
    std::vector<PairResult> results;
    double fastest = 0;
    for (std::size_t i = 0; i < round->tests.size(); ++i) {
      results.push_back(result_of(round->tests[i], nodes, outputs[2 * i + 1], options));
      fastest = std::max(fastest, results.back().gb_per_s.value_or(0));
    }
    for (std::size_t i = 0; i < round->tests.size(); ++i) {
      const PairResult& result = results[i];
      const NodeOutput& serving = outputs[2 * i];
      const NodeOutput& connecting = outputs[2 * i + 1];
      if (!counts(result, fastest, serving, connecting, nodes, search, measured)) continue;
      if (!result.gb_per_s && measured.complaints.size() < failures_told_max) {
        measured.complaints.push_back(name_of(result.test, nodes) + ": " +
                                      why_none(serving, connecting, metric_of(options)));
      }
      search.add(result);
    }
  }
  return measured;
}

}  // namespace muster
