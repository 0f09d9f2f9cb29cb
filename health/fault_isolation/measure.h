// Measures the pairs of a search with the probes of two nodes, round by round, until it is
// done: over InfiniBand or over TCP. One thread; blocks while it runs.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "health/fault_isolation/search.h"

namespace muster {

// Runs probes on nodes that this process only reaches through somebody else: the agents, or a
// model of them. Blocks.

struct NodeCommand {
  std::string node;
  std::vector<std::string> words;    // of a probe, behind `muster agent probe`
  std::string token;                 // for its environment: arguments can be read by everybody
  std::chrono::seconds deadline{0};  // it is killed then
};

struct NodeOutput {
  std::string lines;  // what it printed, also before it was killed
  std::string error;  // why it did not end by itself, or never ran; empty: it ended
  // Somebody else had the node, a job or another measurement: what it says counts for nothing.
  bool is_void = false;
};

class RunOnNode {
 public:
  virtual ~RunOnNode() = default;
  // All at the same time; returns when each has ended or was killed, in the same order.
  virtual std::vector<NodeOutput> run(const std::vector<NodeCommand>& commands) = 0;
};

struct PairMeasureOptions {
  bool has_verbs = false;                       // rails are HCAs; else TCP, which knows no rails
  std::map<std::string, std::string> hosts;     // to connect to, by node; usually its name
  std::map<std::string, std::string> machines;  // by node: those of one share its ports
  int first_port = 18700;                       // free on all nodes, with some hundred after it
  std::chrono::seconds time{10};                // of a measurement
  std::string token;                            // that nobody else knows; new for each run
  std::function<void(const PairRound&)> on_round;
};

// What both ends of a test are to run: the serving one, the connecting one.
struct PairCommands {
  NodeCommand serve;
  NodeCommand connect;
};
PairCommands commands_of(const PairTest& test, const std::vector<PairNode>& nodes, int port,
                         const PairMeasureOptions& options);

// Of the connecting end's lines; of several HCAs the slowest. Nothing: one of them said nothing.
PairResult result_of(const PairTest& test, const std::vector<PairNode>& nodes,
                     const NodeOutput& connecting, const PairMeasureOptions& options);

// Why each test without a result has none, a line each: "n1 n2: the partner did not come".
using PairComplaints = std::vector<std::string>;

struct PairsMeasured {
  PairComplaints complaints;
  // Nodes that somebody else had meanwhile, and what is said of that. No verdict rests on it.
  std::map<std::string, std::string> left_out;
};

// `nodes` are those of the search.
PairsMeasured measure_pairs(FaultSearch& search, const std::vector<PairNode>& nodes,
                            RunOnNode& on_nodes, const PairMeasureOptions& options);

}  // namespace muster
