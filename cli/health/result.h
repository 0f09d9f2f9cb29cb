// What a node said when its health was asked: the text that `muster health run -o json`, or
// `active`, wrote there, read with distrust. What cannot be read is no answer, and no answer is
// never a pass. Pure.
#pragma once

#include <string>
#include <vector>

#include "health/learn/versions.h"
#include "health/model/performance.h"
#include "health/output/finding_report.h"

namespace muster {

// Worst first.
enum class NodeFitness { drained, unreachable, unclear, ok };
const char* word(NodeFitness fitness);

struct NodeAnswer {
  std::string node;
  std::string target;
  NodeFitness fitness = NodeFitness::unreachable;
  std::string why;  // a sentence; empty: ok
  std::string boot_id;
  std::string profile;  // empty: none
  std::string phase;
  bool beside_ranks = false;
  std::vector<FindingReport> reports;  // their host is the node
  NodeVersions versions;
  std::vector<PerformanceSample> figures;  // of a node that was measured
  std::string text;  // as it came; empty: it does not answer
};

NodeAnswer read_answer(const std::string& node, const std::string& target, std::string text,
                       const std::string& now);
// Its one finding is host.agent, unknown. `now`: utc_text.
NodeAnswer no_answer(const std::string& node, const std::string& target, const std::string& why,
                     const std::string& now);

// It was reached and not measured. `why`: "not started: " of one that a job has, or that is not
// idle, "not measured: " of one whose measurement failed. Each of the `checks` is unknown.
NodeAnswer not_measured(const std::string& node, const std::string& target, const std::string& why,
                        const std::vector<std::string>& checks, const std::string& now);

}  // namespace muster
