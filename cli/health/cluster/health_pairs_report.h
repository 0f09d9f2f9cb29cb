// What measuring pairs found, for people, programs and monitors. Pure.
//
// The result for machines; absent things are null:
//   ts target profile took_ms seed
//   over: tcp|infiniband, rails: [names]
//   nodes: [names of those that took part], left_out: [{node, why}], busy: ["node: why"]
//   rounds median_gb_per_s noise            noise: one standard deviation, as a fraction
//   state: clean|slow|unclear, why: [sentences: what keeps it from being clear]
//   verdicts: [{kind: node|rail|path|leaf|infra|doubtful, names, rail, no_result, path_possible,
//               evidence}]
//   no_result: ["n1 n2: why"]               tests that gave none
//   findings: [one as a line of the form jsonl]
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/health/cluster/pairs_plan.h"
#include "cli/health/result.h"
#include "cli/terminal/document.h"
#include "health/fault_isolation/measure.h"

namespace muster {

struct PairsResult {
  Time at;
  Milliseconds took{0};
  std::string target;
  std::string profile;  // empty: none
  bool has_verbs = false;
  std::vector<std::string> rails;
  std::vector<std::string> nodes;
  std::vector<LeftOut> left_out;
  std::vector<std::string> busy;
  std::uint64_t seed = 0;
  int rounds = 0;
  double median_gb_per_s = 0;
  double noise = 0;
  std::vector<FaultVerdict> verdicts;  // without `clean`, which is the lack of others
  PairComplaints complaints;
};

// Nodes that somebody else had during the measurement, and why: neither they nor what their tests
// may have counted for is named.
void leave_out_taken(PairsResult& result, const std::map<std::string, std::string>& why_of_node);

// Something is named.
bool is_slow(const PairsResult& result);
// What keeps a result that names nothing from being a pass; empty: nothing.
std::vector<std::string> why_unclear(const PairsResult& result);
// 1 when something is named, else 3 when it is unclear.
HealthExit pairs_exit(const PairsResult& result);

// "rail mlx5_3 of n4", "the path between n1, n2"
std::string name_of(const FaultVerdict& verdict);
std::vector<FindingReport> pairs_reports(const PairsResult& result);
std::string pairs_text(const PairsResult& result, const HealthTextForm& form);
Document pairs_document(const PairsResult& result);

}  // namespace muster
