// The memory that one rank of a training run takes, by what it is for, before anything is started.
//
// Two kinds of rank. That of muster-train on processors follows its buffers one by one, so that the
// figure can be compared with what a run takes. That on a GPU is the arithmetic of mixed precision
// (ZeRO, arXiv 1910.02054; activations: arXiv 2205.05198, without dropout and with attention that
// keeps no probabilities): bf16 weights, fp32 master, moments and accumulated gradients. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/report/flops.h"
#include "runtime/train/step/options.h"
#include "scheduler/text/fields.h"

namespace muster {

enum class RankKind { processor, gpu };

struct RankLayout {
  RankKind kind = RankKind::processor;
  std::size_t ranks = 1;
  std::size_t ranks_per_node = 1;
  // Of a run whose ranks come and go, between so many and `ranks`; nothing: they stay.
  std::optional<std::size_t> least_ranks = {};
};

// Bytes. Of a rank that holds most.
struct RankMemory {
  std::uint64_t weights = 0;
  std::uint64_t gradients = 0;
  std::uint64_t optimizer = 0;  // moments, and the fp32 master where weights are bf16
  std::uint64_t activations = 0;
  std::uint64_t buffers = 0;   // of gathered weights, received gradients, communicators, samples
  std::uint64_t snapshot = 0;  // of a checkpoint, in host memory
  std::uint64_t program = 0;   // code, libraries, their scratch

  MUSTER_FIELDS(weights, gradients, optimizer, activations, buffers, program, snapshot)
  std::uint64_t without_snapshot() const {
    return weights + gradients + optimizer + activations + buffers + program;
  }
};

// What the memory of the device itself must hold; a snapshot is in that of the host.
inline std::uint64_t device_bytes(const RankMemory& memory, RankKind kind) {
  return memory.without_snapshot() + (kind == RankKind::processor ? memory.snapshot : 0);
}

// options.shape.vocabulary is not 0. Throws StartError when no run can have these options.
RankMemory rank_memory(const TrainOptions& options, const RankLayout& layout);

// The memory that a rank of a training command takes, from the words of the command alone.
struct RunMemory {
  std::uint64_t bytes = 0;           // of the rank that takes most
  std::string cheapest_change;       // that makes it fit, where it does not and one is known
  std::vector<std::string> remarks;  // sharing_remarks()
};

// No run can have the options, whatever the nodes hold.
struct ImpossibleRun {
  std::string why;
};

// `words`: those after "muster-train". `limit_bytes`: what there is for a rank, if that is known.
// Or why none can have these options; or a sentence: why they are not understood.
std::variant<RunMemory, ImpossibleRun, std::string> run_memory(
    const std::vector<std::string>& words, const RankLayout& layout,
    std::optional<std::uint64_t> limit_bytes);

// How long a step takes, whether a rank fits the memory that there is for it, and what would make
// it fit. Pure.

// A step takes the arithmetic of the model, and sending the bytes of ranks.
//
// Bytes per rank and step, by stage, of P parameters, k micro-batches per rank, e bytes per number
// (ZeRO, arXiv 1910.02054, section 7; gradients of stage 2 leave with every micro-batch):
//   0  2eP    1  2eP    2  ePk + eP    3  3ePk       times (N - 1) / N of N ranks
// On processors they leave with the last one: 2  2eP    3  2ePk + eP.
// Computing and sending overlap as far as the run lets them: the step lies between the longer of
// both and their sum.

// Of one rank.
struct RankRates {
  double peak_flops = 0;        // per second
  double share_of_peak = 0.5;   // at which it computes, assumed
  double link_bytes_per_s = 0;  // 0: not known
};

struct StepTime {
  double tokens = 0;  // of all ranks
  double flops = 0;   // of the rank with most sequences, recomputation included
  double bytes = 0;   // that one rank sends
  double compute_s = 0;
  double communication_s = 0;

  double hidden_s() const { return compute_s > communication_s ? compute_s : communication_s; }
  double exposed_s() const { return compute_s + communication_s; }
};

// Throws StartError when no run can have the options.
StepTime step_time(const TrainOptions& options, const RankLayout& layout, const RankRates& rates);

// For one rank, bytes. Where the device is the host, only the first counts.
struct MemoryLimit {
  std::uint64_t device = 0;
  std::optional<std::uint64_t> host;
};

bool fits(const RankMemory& memory, const MemoryLimit& limit, RankKind kind);

struct FittingChange {
  std::string what;  // "--zero 3, --recompute"
  TrainOptions options;
  RankLayout layout;
  RankMemory memory;
  double cost = 1;  // rank-seconds per token, as a multiple of those without the change
};

// Of higher stages, recomputation, smaller micro-batches and more ranks, and of them together: the
// cheapest `most` that fit, none of which does more than another one that fits too.
std::vector<FittingChange> cheapest_changes(const TrainOptions& options, const RankLayout& layout,
                                            const MemoryLimit& limit, const RankRates& rates,
                                            std::size_t most = 3);

}  // namespace muster
