// A checkpoint of a small GPT, whose values count up in the flat space.
#pragma once

#include <string>

#include "runtime/model/gpt.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/folder.h"

namespace muster::test {

inline constexpr GptShape shape_of_all{2, 16, 4, 8, 50};

inline Manifest gpt_manifest(GptShape shape) {
  Manifest manifest;
  manifest.flat = gpt_flat_space(shape);
  manifest.train.config["heads"] = std::to_string(shape.heads);
  return manifest;
}

// Commits a checkpoint whose values count up, and returns its path.
inline std::string commit_gpt(const std::string& root, GptShape shape) {
  Manifest manifest = gpt_manifest(shape);
  manifest.run_id = "00112233445566778899aabbccddeeff";
  manifest.step = 10;
  manifest.generation = 1;
  const std::string path = prepare_checkpoint_directory(root, 10, 1).value();
  std::vector<float> values(manifest.flat.numel);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  for (std::size_t r = 0; r < 2; ++r) {
    const ElementRange range = owned_elements(manifest.flat, r, 2);
    const auto own = std::span<const float>(values).subspan(range.lo, range.size());
    const auto shard = write_shard(path, {manifest.run_id, 10, 1, layout_hash(manifest.flat)},
                                   {"h", r, 2}, range, {own, own, own});
    REQUIRE(shard.ok());
    manifest.shards.push_back(shard.value());
  }
  REQUIRE(commit_checkpoint(root, manifest).ok());
  return path;
}

}  // namespace muster::test
