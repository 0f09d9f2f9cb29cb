// The manifest: the commit record of one checkpoint, format "muster-ckpt" version 1.
//
// A checkpoint exists when its manifest is durable, and not before. The text is JSON sealed as in
// runtime/protocol/checkpoint_layout.h; u64 values and hashes are strings, floats that must be
// bit-exact are hex strings of their IEEE bits. Readers ignore unknown keys, and refuse a higher
// version or an unknown requirement. Plain data; parse_manifest accepts any bytes and never throws.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/flat_space.h"
#include "scheduler/text/fields.h"

namespace muster {

inline constexpr std::uint64_t shard_chunk_bytes = 8388608;         // counted from file byte 0
inline constexpr std::uint64_t manifest_limit_bytes = 64ull << 20;  // target is below 1 MB
inline constexpr std::uint64_t shard_data_alignment_bytes = 4096;

struct ShardRecord {
  std::string file;  // plain name inside the checkpoint's directory
  std::uint64_t bytes = 0;
  std::uint64_t data_offset = 0;  // bytes; the planes follow each other from here
  ElementRange range;
  std::string host;
  std::uint64_t rank = 0;
  std::string engine;  // how it was written: information only
  std::uint64_t chunk_bytes = shard_chunk_bytes;
  std::vector<std::uint32_t> chunk_crc32c;
  std::uint32_t file_crc32c = 0;
  std::array<TensorStats, flat_planes> vitals;
};

// Where the data order stands. The fingerprint tells whether a resumed run reads the same text.
struct SamplerState {
  std::string kind;
  std::uint64_t epoch = 0;
  std::uint64_t cursor = 0;  // samples drawn since step 0
  std::uint64_t data_bytes = 0;
  std::uint32_t data_crc32c = 0;
};

// How the losses of a run have gone.
struct LossHistory {
  double loss_ema = 0;  // 0.98 of the old value + 0.02 of the loss; the first loss at step 1
  std::uint64_t skipped_in_a_row = 0;  // steps without an update, because of a non-finite gradient
  // Lowest median of 20 losses in a row, before that the first one; 0: not known, as in older
  // manifests.
  double best_loss = 0;
  std::uint64_t best_step = 0;
  std::uint64_t far_above_in_a_row = 0;  // steps whose loss was far above it
};

// Everything besides the planes that the next step needs.
struct TrainState : LossHistory {
  std::uint64_t seed = 0;
  std::uint64_t micro_batches = 0;  // V, per step, over all ranks
  std::uint64_t micro_batch = 0;    // sequences in each
  std::uint64_t leaves = 0;
  SamplerState sampler;
  std::uint64_t lr_step = 0;
  std::map<std::string, std::string> config;  // options that decide the result, by name
};

// How the working weights of the ranks compared when the checkpoint was taken.
struct ReplicaVote {
  std::uint64_t hash = 0;
  std::uint64_t voters = 0;  // 0: no rank held all weights, or there was but one rank
  bool agree = true;
};

// Generation g began from the state after fork_step.
struct GenerationFork {
  std::uint64_t generation = 0;
  std::uint64_t fork_step = 0;
  friend bool operator==(const GenerationFork&, const GenerationFork&) = default;
  MUSTER_FIELDS(generation, fork_step)
};

struct Manifest {
  std::string run_id;  // 32 hex digits
  std::uint64_t generation = 0;
  std::uint64_t step = 0;
  std::uint64_t tokens = 0;
  std::uint64_t created_ns = 0;  // information only
  std::uint64_t code_hash = 0;
  std::uint64_t config_hash = 0;
  FlatSpace flat;
  std::vector<ShardRecord> shards;  // by range, covering [0, numel) exactly
  std::uint64_t state_hash = 0;     // sum of the plane hashes of all shards
  ReplicaVote replica;
  TrainState train;
  std::uint64_t world = 0;
  std::vector<std::string> nodes;
  std::string previous;  // directory name, empty at the first
  std::vector<GenerationFork> lineage;
};

// The sealed text.
std::string format_manifest(const Manifest& manifest);

// Checks the seal, every type and limit, the cover of [0, numel) and the layout hash.
Checked<Manifest> parse_manifest(std::string_view text);

// One shard as JSON text, for sending it to the rank that writes the manifest, and back.
std::string format_shard_record(const ShardRecord& shard);
Checked<ShardRecord> parse_shard_record(std::string_view text);

}  // namespace muster
