// What `run` would do with a job, worked out without doing it: nodes in order of preference, the
// rank map, the trees that would be copied, the memory that ranks of muster-train take. Reads the
// source directories and how much memory this host has; pure otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/image/needs.h"
#include "cli/job/submission.h"
#include "cli/terminal/document.h"
#include "launcher/controller/store/home.h"
#include "launcher/staging/source_tree.h"
#include "launcher/wire/client_message.h"
#include "scheduler/explain/summary.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/ids.h"
#include "scheduler/model/job_spec.h"
#include "scheduler/state/rank_map.h"
#include "templates/parse_file.h"

namespace muster {

// Nodes that would get no job now: drained, cordoned, about to leave, or not reachable. As the
// controller knows them, or where none runs as the journal has them; nothing is asked of a node.
// Each with a sentence: "h02 is drained: fan".
using UnavailableNodes = std::map<NodeId, std::string>;

UnavailableNodes unavailable_nodes(const Home& home);

// Why this one would get no job; empty: it would.
std::string why_unavailable(const NodeLine& node);

// What a job's ranks will take of the memory of their nodes, where they are those of muster-train.
// Nodes that are reached over a network are not asked: of them it is known where the job names a
// size of machine (resources.instance_type). Pure.

struct TrainMemory {
  std::optional<std::uint64_t> bytes;      // of the rank that takes most; nothing: see `trouble`
  std::optional<std::uint64_t> available;  // to one rank
  std::string trouble;                     // why `bytes` is not known
  bool is_impossible = false;              // as the options and the ranks contradict each other
  std::string cheapest_change;             // that makes it fit, if it does not
  std::vector<std::string> remarks;        // about how the ranks share the work

  bool lacks() const { return bytes && available && *bytes > *available; }
};

// Nothing where the command does not train. `host_bytes`: all memory of this host.
std::optional<TrainMemory> train_memory(const JobSpec& spec, const ComputeTarget& target,
                                        std::size_t ranks, std::optional<std::uint64_t> host_bytes);

// What no node could make good: the options and the ranks contradict each other.
std::vector<Finding> train_findings(const JobFile& job, const ComputeTarget& target);

// "per rank: 1.2 GiB of 31.3 GiB: fits"
std::string train_memory_text(const TrainMemory& memory);
Document train_memory_document(const TrainMemory& memory);

// The words after the first muster-train that the command starts, up to the end of that command,
// without their quotes; nothing when it starts none, or one of its tools (muster-train tokenize).
// What only a shell knows, such as "$STEPS", stays as it is.
std::optional<std::vector<std::string>> train_words(const JobSpec& spec);

struct PlannedTree {
  SnapshotRequest request;
  SourceTree tree;
};

struct JobPlan {
  JobSpec spec;
  ComputeTarget target;
  std::vector<NodeId> nodes;  // in the order they would be tried; free and healthy shows later
  std::vector<NodeId> unavailable;  // of the target, and drained or not reachable now
  int placed = 1;                // so many it would start with, were all of them free and healthy
  std::vector<RankPlace> ranks;  // none where nodes have to count their GPUs first
  std::vector<PlannedTree> trees;
  JobData data{};                     // its inputs are listed
  std::optional<TrainMemory> memory;  // where the command is muster-train
  std::vector<JobNeed> needs{};       // its image, and `data`
  std::map<NodeId, Holdings> held{};  // of first_nodes, as far as they could be asked
};

// Those that it would start with now.
std::vector<NodeId> first_nodes(const JobPlan& plan);

Result<JobPlan> make_plan(const JobSpec& spec, const ComputeTarget& target,
                          const UnavailableNodes& unavailable);
Document plan_document(const JobPlan& plan, const UnavailableNodes& unavailable);

// `processes` as AttemptSummary has it. Nothing: GPUs have not been counted, or nodes not chosen.
std::optional<std::size_t> rank_count(const JobSpec& spec, const std::vector<int>& processes);
// All that the attempt had there: a node may have left it and come again. Empty when that is not
// known yet, or when the node was not in it.
std::set<RankId> ranks_of_node(const JobSpec& spec, const AttemptSummary& attempt,
                               const NodeId& node);

// What is said beforehand of the measuring that a job's gate does (health.start, health.failure):
// what `start: full` costs on this target, and where `full` that a job asks for adds nothing.
std::vector<Finding> gate_findings(const JobFile& job, const ComputeTarget& target);

// A checkpoint that the job names and that is not where its nodes would see it, if that is known.
std::vector<Finding> resume_findings(const JobFile& job, const ComputeTarget& target);

// What comes between an attempt that failed and the next; empty: nothing.
std::string measured_after_failure(const JobSpec& spec, const ComputeTarget& target);

}  // namespace muster
