// `muster health pairs`: which node, rail or path makes a group of nodes slow, found by
// measuring pairs of them through the controller.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/health/result.h"
#include "cli/health/run.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "health/fabric/leaf_groups.h"
#include "health/fault_isolation/measure.h"
#include "health/model/profile.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace muster {

// `profile` empty: the target's; `timeout`: until a node is reached.
struct HealthPairsOptions : HealthAsked {
  std::string leaves;                // a file of lines "node leaf"; empty: the fabric is asked
  std::optional<Milliseconds> time;  // of a measurement
  std::optional<std::int64_t> port;  // the first that is used on the nodes
  std::vector<std::string> hcas;     // "mlx5_0:1": by which the fabric is asked; none: any
  bool tcp = false;                  // even if the nodes have InfiniBand
  bool idle_only = false;            // nodes that are not idle are left out
  bool force = false;                // hosts that are busy without a job are measured as well
};

int run_health_pairs(const HealthPairsOptions& options, const CommonOptions& common);

// Whether a node can take part in a measurement of several nodes, said by itself: one of the
// probes, `muster agent probe ready`.
//
//   busy TEXT     why it is not idle; left out when it is
//   hca mlx5_0    each InfiniBand device with an active port, "mlx5_0:2" for another than the first
//   guid 0x… mlx5_0   of the port of such a device, as the fabric knows it
//   boot ID       of the machine, which several nodes may share
//   ready         the end

inline constexpr const char* ready_probe = "ready";

struct NodeReadiness {
  std::string busy;  // empty: it is idle
  std::vector<std::string> hcas;
  std::map<std::string, std::uint64_t> guids = {};  // by the name in hcas
  std::string boot_id = {};                         // empty: it does not say
};

// Nothing: the text is no whole answer. Lines that are not known are left out.
std::optional<NodeReadiness> read_readiness(std::string_view text);
std::string text_of(const NodeReadiness& readiness);

// Looks at this host and prints; takes a second. The exit code.
int report_readiness();

// What `muster health pairs` measures: which nodes take part, below which leaves, over which rails,
// against which floors; and what it found, for people, programs and monitors. Pure.
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

// What a node said when it was asked whether it can take part.
struct PairCandidate {
  std::string node;
  std::optional<NodeReadiness> readiness;
  std::string why_none;  // no readiness: why
  bool has_job = false;  // it is never measured
};
PairCandidate held_candidate(const std::string& node, const std::string& job);

struct LeftOut {
  std::string node;
  std::string why;
  bool is_meant = false;  // it is not idle, and was to be left out then
};

struct PairTeam {
  std::vector<PairCandidate> members;
  std::vector<LeftOut> left_out;
  std::vector<std::string> busy;  // of members that are measured all the same: "h01: why"
};
struct PairTeamRules {
  bool idle_only = false;
  bool force = false;
};
// The Error: some are not idle, and neither is allowed.
Result<PairTeam> team_of(std::vector<PairCandidate> candidates, const PairTeamRules& rules);

// The HCAs that all have, as the profile wants them; and those that only some have.
struct CommonRails {
  std::vector<std::string> rails;
  std::vector<std::string> not_of_all;
};
CommonRails common_rails(const std::vector<PairCandidate>& members, const HealthProfile& profile);

// What the members say of their ports.
std::vector<RailGuids> rail_guids(const std::vector<PairCandidate>& members);

// Who is below no known leaf is below one of its own with the others.
std::vector<PairNode> pair_nodes(const std::vector<PairCandidate>& members,
                                 const std::vector<std::string>& rails, const LeafOfNode& leaves);

// Floors of the profile for what is measured.
SearchSettings pair_settings(const HealthProfile& profile, const PairMeasureOptions& options,
                             std::uint64_t seed);

// By node: those of one machine say the same. Without members that do not say.
std::map<std::string, std::string> pair_machines(const std::vector<PairCandidate>& members);

// What other nodes connect to.
std::map<std::string, std::string> pair_hosts(const ComputeTarget& target);

// A node of them that no other can reach; empty: none.
std::string unreachable_by_others(const ComputeTarget& target);

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

// A file that says which leaf switch each node is below.

// Lines "node leaf", `#` begins a comment. The Error names the line.
Result<LeafOfNode> read_leaves(std::string_view text);

}  // namespace muster
