// The parts of a save, shared by the blocking one and the one in the background.
//
// A rank's part is a text for rank 0: the hash of its copy of all weights, a blank, its manifest
// entry.
#pragma once

#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/shard.h"
#include "runtime/train/save.h"
#include "runtime/train/training_state.h"

namespace muster {

// Which rank of how many writes which elements.
struct ShardOwner {
  std::size_t rank = 0;
  std::size_t ranks = 1;
  ElementRange owned;
};

// Writes the shard of one rank. `weights_hash` is that of all weights on this rank.
Checked<std::string> write_part(const SaveContext& context, const FlatSpace& space,
                                std::uint64_t step, const ShardOwner& owner,
                                const PlaneSpans& planes, std::uint64_t weights_hash);

// The manifest that the parts of all ranks make. A state that holds NaN or infinity cannot be
// trained further, and must not push out one that can: a fault.
Checked<Manifest> make_manifest(const SaveContext& context, const FlatSpace& space,
                                const TrainingProgress& progress,
                                const std::vector<std::string>& parts);

// Rank 0's last part. Trouble after the commit is told, but the checkpoint counts.
Checked<std::string> commit_and_collect(const SaveContext& context, const Manifest& manifest);

}  // namespace muster
