// Strong ids. A job name cannot be passed where a node is wanted, and a rank is not a node index.
// Values only, any thread, no allocation beyond the string itself.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace muster {

template <class Tag>
struct StringId {
  std::string value;
  auto operator<=>(const StringId&) const = default;
};

template <class Tag>
struct NumberId {
  std::int64_t value = 0;
  auto operator<=>(const NumberId&) const = default;
};

using JobId = StringId<struct JobTag>;          // the job's name, unique in one state directory
using NodeId = StringId<struct NodeTag>;        // a node's name in its compute target
using RankId = NumberId<struct RankTag>;        // global rank, 0 … world size - 1
using AttemptId = NumberId<struct AttemptTag>;  // attempt number inside its job, from 0

// The fencing epoch (the "generation" of checkpoints): attempt number + 1, never reused in a job.
using Epoch = NumberId<struct EpochTag>;

inline Epoch epoch_of(AttemptId attempt) { return Epoch{attempt.value + 1}; }

}  // namespace muster
