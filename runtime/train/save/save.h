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

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/file/write.h"
#include "runtime/checkpoint/flat_space.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/shard.h"
#include "runtime/communicator/communicator.h"
#include "runtime/protocol/environment.h"
#include "runtime/train/step/options.h"
#include "runtime/train/step/training_state.h"

namespace muster {

// Who writes checkpoints: the run and its generation (restore.h).
struct RunIdentity {
  std::string run_id;  // 32 hex digits
  std::uint64_t generation = 1;
  std::uint64_t config_hash = 0;
  std::uint64_t code_hash = 0;
};

// Of this machine; "unknown" when it does not say.
std::string host_name();

// Hash of the job's name, or of the options when no launcher gave one: equal runs get equal ids.
RunIdentity make_run_identity(const TrainOptions& options, const RankVariables& variables);

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
  std::uint64_t batch = 0;              // samples per step
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

// Where the checkpoints of a run lie; empty: none are written.
std::string checkpoint_root(const TrainOptions& options, const RankVariables& variables);

// All but what a generation adds: its number, lineage, nodes and the checkpoint before it.
// `windows` are those of the sampler, `data` the fingerprint of the text.
SaveContext make_save_context(const TrainOptions& options, const RankVariables& variables,
                              const BatchPlan& plan, const SamplerState& data,
                              std::uint64_t windows);

// Brings shards to rank 0's node where the checkpoint directory is not shared between nodes: those
// that rank 0 cannot see are broadcast, chunk by chunk, and compared with their checksums. A shard
// gets its name only when it is whole and durable, so that a file which rank 0 merely does not see
// yet is never overwritten. How many had to be fetched, or why one could not be; the same on every
// rank. Collective.
Checked<std::size_t> fetch_missing_shards(const std::string& path, const Manifest& manifest,
                                          Communicator& ranks);

// The parts of a save, blocking or in the background. A rank's part is a text for rank 0: the hash
// of its copy of all weights, a blank, its manifest entry.

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

// model.safetensors: the trained weights, for other programs.
//
// One F32 tensor per parameter under its Hugging Face GPT-2 name, without the padding of the flat
// space, in model order; header padded to 8 bytes. Equal weights give equal bytes. Written part by
// part, so that nobody has to hold all of it.

inline constexpr const char* weights_file_name = "model.safetensors";

class WeightsFile {
 public:
  // Begins a new directory/model.safetensors; the old one stays until replace(), and for good when
  // this ends before. `space` outlives this.
  static Checked<WeightsFile> create(const std::string& directory, const FlatSpace& space);

  // Elements `range` of the space. All of it is written once, in any order.
  Checked<NoValue> write(const ElementRange& range, std::span<const float> weights);

  // The file is whole: it replaces the old one, durably.
  Checked<NoValue> replace() { return file_.replace(); }

 private:
  WeightsFile(const FlatSpace& space, ReplacingFile file, std::uint64_t header_bytes);

  const FlatSpace* space_;
  ReplacingFile file_;
  std::uint64_t header_bytes_;
};

// Writes the weights at the end of a run into directory/model.safetensors; the directory is that of
// rank 0, which gathers them from their owners, some MiB at a time, where it does not hold them.
// Collective; every rank gets the same outcome.
Checked<NoValue> write_final_weights(const std::string& directory, const FlatSpace& space,
                                     const TrainingState& state, Communicator& ranks);

}  // namespace muster
