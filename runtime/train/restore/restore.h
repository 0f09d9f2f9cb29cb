// Where a run begins: a fresh model, or the state of a checkpoint, at any number of ranks.
//
// Every rank looks; the rank that has the chosen checkpoint sends its path and manifest to all.
// Each rank votes whether it sees the same files; when all do, each reads the ranges it needs,
// otherwise the source rank reads and broadcasts. Every touched chunk is verified and the hash of
// the whole state is compared with the manifest's. A checkpoint whose content is wrong is
// quarantined, and where the newest was asked for the next older one is tried; one that cannot be
// read ends the start. Collective.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/communicator/communicator.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/environment.h"
#include "runtime/train/step/options.h"
#include "runtime/train/step/training_state.h"
#include "scheduler/text/fields.h"

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
// parts of a checkpoint that turned out to be damaged. Throws StartError, on all ranks alike, when
// the checkpoint asked for cannot be used; the sentence says why. Differences that only change how
// training goes on (learning rate and the like) are added to `remarks`.
std::optional<Restored> restore_checkpoint(const RestoreTarget& target,
                                           const RankVariables& variables, Communicator& ranks,
                                           TrainingState& state, std::vector<std::string>& remarks);

// The complaint about the first difference that forbids resuming, or nothing; others go to
// `remarks`.
std::string resume_conflict(const RestoreTarget& target, const Manifest& manifest,
                            std::vector<std::string>& remarks);

// Values of a checkpoint on every rank, whether or not every rank sees its files.
//
// Where not all can read it, as when it lies on a disk of the source rank's node, that rank reads
// everything and broadcasts. The constructor and fill() are collective.
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

// Which generation writes: taken by the rank that leads, and in the log before anything else of it.
//
// It is the launcher's fencing epoch where there is one, raised above every generation that has
// already used the directory. In an elastic run every epoch of the members takes one of its own, so
// that a leader which was dropped and does not know it finds itself replaced. Writers are in order
// by (MUSTER_EPOCH, epoch of the members): a process whose own run has come as far, or further, is
// a leftover and must not write. Without MUSTER_EPOCH the epochs of an earlier attempt look like
// those of this one; there, what its members knew when they came is of an earlier attempt.

// The highest generation of which any rank's node, or the checkpoint that is continued, knows: the
// next one must stand above all, or its checkpoints would lie off their own lineage. Collective.
std::uint64_t highest_generation(const std::string& root, const std::optional<Restored>& restored,
                                 Communicator& ranks);

struct KnownGenerations {
  std::uint64_t to_ranks = 0;  // the highest of which a rank knew without looking now
  std::uint64_t highest = 0;   // of all
};

// The number of the generation that `line` begins; a fault when it comes too late.
Checked<std::uint64_t> choose_generation(const GenerationLine& line, const KnownGenerations& known,
                                         const ResumeLog& log);

// Chooses the number for `draft`, above `known_to_ranks` and all that `root` shows, and writes the
// line durably. `root` is created. Any thread.
Checked<std::uint64_t> take_generation(const std::string& root, const GenerationLine& draft,
                                       std::uint64_t known_to_ranks);

// What each rank finds to resume from, and the one that all of them take.
//
// Where nodes share no directory, a checkpoint lies on one node alone, and after a restart that may
// be any rank's. So every rank looks, all hear what each has found, and all decide alike: a
// checkpoint counts when no later generation that any rank knows of began before it; then the
// highest step wins, then the highest generation, then the lowest rank. Pure, but for find_offer.
struct RejectedOffer {
  CheckpointName name;
  std::string reason;
  MUSTER_FIELDS(name, reason)
};
struct ResumeOffer {
  std::vector<CheckpointName> usable;
  std::vector<GenerationFork> forks;
  std::string trouble;  // why this rank's view says nothing against what it does not show
  // Committed checkpoints that are not usable, and why.
  std::vector<RejectedOffer> rejected;
  MUSTER_FIELDS(usable, forks, trouble, rejected)
};

// What lies in directory `root` of this node and has this grade or a higher one.
ResumeOffer find_offer(const std::string& root,
                       CheckpointGrade at_least = CheckpointGrade::committed);

struct ChosenOffer {
  std::size_t rank = 0;
  CheckpointName name;
};

// `offers` by rank.
std::optional<ChosenOffer> choose_offer(std::span<const ResumeOffer> offers);

// The checkpoints that are newer than the chosen one, a sentence each with the reason.
std::vector<std::string> passed_over(std::span<const ResumeOffer> offers,
                                     const CheckpointName& chosen);

// Why none could be chosen although something is there, or empty: there is nothing anywhere.
std::string complaint_of(std::span<const ResumeOffer> offers);

}  // namespace muster
