// What a job's ranks will take of the memory of their nodes, where they are those of muster-train.
//
// Nodes that are reached over a network are not asked: of them it is known where the job names a
// size of machine (resources.instance_type). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/document.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/job_spec.h"
#include "templates/parse_file.h"

namespace muster {

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

}  // namespace muster
