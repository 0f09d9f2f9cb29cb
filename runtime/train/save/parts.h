// The parts of a save, shared by the blocking one and the one in the background.
//
// A rank's part is a text for rank 0: the hash of its copy of all weights, a blank, its manifest
// entry.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/shard.h"
#include "runtime/train/save/save.h"
#include "runtime/train/step/training_state.h"

namespace muster {

// Which rank of how many writes which elements.
struct ShardOwner {
  std::size_t rank = 0;
  std::size_t ranks = 1;
  ElementRange owned;
};

// Makes the directory and begins the shard of one rank.
Checked<ShardWrite> begin_part(SaveContext& context, const FlatSpace& space, std::uint64_t step,
                               const ShardOwner& owner, const PlaneSpans& planes);

// What the source of the values was when they were taken.
struct SourceHashes {
  std::uint64_t weights = 0;  // of all weights on this rank; 0: it holds its own only
  // Of the owned elements of each plane; none when the shard is written from the source itself.
  std::optional<std::array<std::uint64_t, flat_planes>> owned = {};
};

// Waits until the shard is durable; the rank's part. A fault when the shard does not hold the
// source's values.
Checked<std::string> finish_part(ShardWrite& shard, const SourceHashes& source);

// The manifest that the parts of all ranks make. A state that holds NaN or infinity cannot be
// trained further, and must not push out one that can: a fault.
Checked<Manifest> make_manifest(const SaveContext& context, const FlatSpace& space,
                                const TrainingProgress& progress,
                                const std::vector<std::string>& parts);

// Rank 0's last part: the commit, the grade SANE, and the end of what retention no longer keeps.
// Trouble after the commit is told, but the checkpoint counts. `durable` is called in between.
Checked<std::string> commit_and_collect(
    const SaveContext& context, const Manifest& manifest,
    const std::function<void()>& durable = [] {});

}  // namespace muster
