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

}  // namespace muster
