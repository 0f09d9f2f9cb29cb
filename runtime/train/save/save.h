// Saving a checkpoint over all ranks: each writes the shard it owns, rank 0 commits.
//
//   every rank   vitals, shard, fdatasync: its manifest entry, or a fault
//   all          any fault: no manifest is written, what was written is removed, training goes on
//   rank 0       fetches shards that it cannot see, where directories are not shared between nodes
//   rank 0       writes the manifest, reads it back, deletes what retention no longer keeps
//
// Where directories are not shared, the whole checkpoint lies on rank 0's node and loading goes
// through rank 0 (restore.h). Collective and synchronous.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/checkpoint/file/write.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/communicator/communicator.h"
#include "runtime/protocol/environment.h"
#include "runtime/train/step/batch_plan.h"
#include "runtime/train/step/options.h"
#include "runtime/train/step/run_identity.h"
#include "runtime/train/step/training_state.h"

namespace muster {

// What stays the same in all checkpoints of a generation.
struct SaveContext {
  std::string root;
  RunIdentity identity;
  std::string host;
  std::vector<std::string> nodes;
  std::uint64_t keep = 3;
  std::string previous;                 // directory name of the checkpoint before
  std::vector<GenerationFork> lineage;  // with this generation's own entry last
  TrainState train;                     // cursor, step and loss are filled in at each save
  std::uint64_t batch = 0;  // samples per step
  std::uint64_t tokens_per_step = 0;
  std::uint64_t windows = 0;          // of the sampler
  std::set<std::string> spared = {};  // directory names that retention leaves alone
  WriteChoice writes = {};            // touched by whoever writes this rank's shard, one at a time
};

struct SaveOutcome {
  std::string directory;  // committed name
  // Why no checkpoint was made, or what went wrong after the commit; empty: nothing.
  std::string trouble;
  bool committed = false;
  std::uint64_t step = 0;
  // Of rank 0, since the save began; 0: not known here.
  double copied_s = 0;   // the state might change again
  double durable_s = 0;  // the manifest was durable
};

// The directory of the checkpoint of a step.
std::string path_of_save(const SaveContext& context, std::uint64_t step);

// Brings the shards together where rank 0 does not see all, and commits; the trouble after the
// commit, which is the same on all ranks. Rank 0 calls `durable` when the manifest is. Collective.
Checked<std::string> fetch_and_commit(const SaveContext& context, const Manifest& manifest,
                                      Communicator& ranks, const std::function<void()>& durable);

// What a save that has ended leaves behind: `context.previous` moves on after a commit, and what
// was written of a failed one goes away. `trouble` is the one after the commit, or why there is
// none.
SaveOutcome conclude_save(SaveContext& context, std::uint64_t step,
                          const Checked<std::string>& trouble);

// Every rank gets the same outcome. `context.previous` moves on after a commit.
SaveOutcome save_checkpoint(SaveContext& context, const FlatSpace& space,
                            const TrainingState& state, Communicator& ranks);

// What every checkpoint of a run says about the run, and where they lie.

// Empty: none are written.
std::string checkpoint_root(const TrainOptions& options, const RankVariables& variables);

// All but what a generation adds: its number, lineage, nodes and the checkpoint before it.
// `windows` are those of the sampler, `data` the fingerprint of the text.
SaveContext make_save_context(const TrainOptions& options, const RankVariables& variables,
                              const BatchPlan& plan, const SamplerState& data,
                              std::uint64_t windows);

}  // namespace muster
