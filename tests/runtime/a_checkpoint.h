// Builds small checkpoints for tests: a flat space of a few blocks, values from a seed, any number
// of ranks.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/checkpoint/shard.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "tests/catch.h"
#include "tests/runtime/random_values.h"

namespace muster::test {

// A shard at once, through the page cache.
inline Checked<ShardRecord> write_shard(const std::string& directory, const ShardIdentity& identity,
                                        const ShardWriter& writer, const ElementRange& range,
                                        const PlaneSpans& planes) {
  WriteChoice choice{WriteWay::buffered, ""};
  auto write = ShardWrite::begin(directory, identity, writer, range, planes, choice);
  if (!write) return write.fault();
  return write.value().finish();
}

using Planes = std::array<std::vector<float>, flat_planes>;

inline FlatSpace a_flat_space() {
  FlatSpace space;
  space.add("one", {40, 50}, true);
  space.add("two", {700}, false);
  space.add("three", {2, 2, 1000}, true);
  return space;
}

inline Planes some_planes(const FlatSpace& space, std::uint64_t seed) {
  Planes planes;
  for (std::size_t i = 0; i < flat_planes; ++i) {
    planes[i] = narrow(normal_values(space.numel, seed + i));
  }
  return planes;
}

struct ACheckpoint {
  std::string root;
  std::uint64_t step = 10;
  std::uint64_t generation = 1;
  std::size_t ranks = 2;
  std::uint64_t seed = 1;
  std::vector<GenerationFork> lineage{{1, 0}};
  double loss_ema = 2.5;

  std::string name() const { return checkpoint_directory_name({step, generation}); }
  std::string path() const { return root + "/" + name(); }

  Manifest manifest_with_shards() const {
    const FlatSpace space = a_flat_space();
    const Planes planes = some_planes(space, seed);
    const auto directory = prepare_checkpoint_directory(root, step, generation);
    REQUIRE(directory.ok());
    Manifest manifest;
    manifest.run_id = "00112233445566778899aabbccddeeff";
    manifest.generation = generation;
    manifest.step = step;
    manifest.tokens = step * 1024;
    manifest.flat = space;
    manifest.world = ranks;
    manifest.nodes = {"h1", "h2"};
    manifest.lineage = lineage;
    manifest.train.seed = 18446744073709551615u;
    manifest.train.micro_batches = 8;
    manifest.train.micro_batch = 2;
    manifest.train.leaves = 8;
    manifest.train.sampler = {"windows-feistel-philox", 1, step * 16, 1000, 0xdeadbeef};
    manifest.train.loss_ema = loss_ema;
    manifest.train.skipped_in_a_row = 3;
    manifest.train.best_loss = 2.25;
    manifest.train.best_step = 7;
    manifest.train.far_above_in_a_row = 2;
    manifest.train.config = {{"lr", "0.001"}};
    for (std::size_t r = 0; r < ranks; ++r) {
      const ElementRange range = owned_elements(space, r, ranks);
      PlaneSpans spans;
      for (std::size_t i = 0; i < flat_planes; ++i) {
        spans[i] = std::span(planes[i]).subspan(range.lo, range.size());
      }
      auto shard =
          write_shard(directory.value(), {manifest.run_id, step, generation, layout_hash(space)},
                      {"h1", r, ranks}, range, spans);
      REQUIRE(shard.ok());
      for (const TensorStats& vitals : shard.value().vitals) manifest.state_hash += vitals.hash;
      manifest.shards.push_back(shard.value());
    }
    return manifest;
  }

  Manifest commit() const {
    Manifest manifest = manifest_with_shards();
    const auto committed = commit_checkpoint(root, manifest);
    if (!committed) FAIL(committed.reason());
    return manifest;
  }
};

// Appends the line of a generation to the log of `root`.
inline void log_generation(const std::string& root, std::uint64_t generation,
                           std::uint64_t fork_step) {
  GenerationLine line;
  line.generation = generation;
  line.fork_step = fork_step;
  line.reason = "resume";
  REQUIRE(append_line_durably(root, checkpoint_log_name, format_generation_line(line)).ok());
}

}  // namespace muster::test
