// Where a run begins: a fresh model, or the state of a checkpoint, at any number of ranks.
//
// Every rank looks (resume_offer.h); the rank that has the chosen checkpoint sends its path and
// manifest to all. Each rank votes whether it sees the same files; when all do, each reads the
// ranges it needs, otherwise the source rank reads and broadcasts. Every touched chunk is verified
// and the hash of the whole state is compared with the manifest's. A checkpoint whose content is
// wrong is quarantined, and where the newest was asked for the next older one is tried; one that
// cannot be read ends the start. Collective.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/communicator/communicator.h"
#include "runtime/protocol/environment.h"
#include "runtime/train/step/batch_plan.h"
#include "runtime/train/step/options.h"
#include "runtime/train/step/training_state.h"

namespace muster {

struct Restored {
  std::string path;
  Manifest manifest;
  std::size_t source_rank = 0;  // has the files for certain
};

// What the caller must match for a resumed run to continue the old one.
struct RestoreTarget {
  const TrainOptions& options;
  const BatchPlan& plan;
  const FlatSpace& space;
  SamplerState data;  // fingerprint of the text
};

// Fills `state` and returns the checkpoint, or nothing for a fresh start, where `state` may hold
// parts of a checkpoint that turned out to be damaged. Throws StartError, on all
// ranks alike, when the checkpoint asked for cannot be used; the sentence says why. Differences
// that only change how training goes on (learning rate and the like) are added to `remarks`.
std::optional<Restored> restore_checkpoint(const RestoreTarget& target,
                                           const RankVariables& variables, Communicator& ranks,
                                           TrainingState& state, std::vector<std::string>& remarks);

// The complaint about the first difference that forbids resuming, or nothing; others go to
// `remarks`.
std::string resume_conflict(const RestoreTarget& target, const Manifest& manifest,
                            std::vector<std::string>& remarks);

// Values of a checkpoint on every rank, whether or not every rank sees its files.
//
// When all ranks can read the checkpoint, each reads its own ranges; otherwise the source rank
// reads everything and broadcasts, and each rank keeps what it asked for. That is the case where
// the checkpoint directory lies on a disk of that rank's node. The constructor and fill() are
// collective.

class PlaneSource {
 public:
  // `path` is where this rank expects the checkpoint; `manifest` and `source_rank` are the same on
  // all ranks, and `manifest` outlives this.
  PlaneSource(const std::string& path, const Manifest& manifest, std::size_t source_rank,
              Communicator& ranks);

  // Fills `out` with elements `range` of plane `plane`; ranges may differ between ranks. After a
  // fault of the source while broadcasting the others hold zeros, which the state hash shows.
  Checked<NoValue> fill(std::size_t plane, const ElementRange& range, std::span<float> out);

  // True when every rank reads for itself.
  bool is_direct() const { return direct_; }

 private:
  Checked<NoValue> receive(std::size_t plane, const ElementRange& range, std::span<float> out);

  CheckpointReader reader_;
  std::uint64_t numel_;
  std::size_t source_rank_;
  Communicator& ranks_;
  bool direct_ = true;
};

}  // namespace muster
