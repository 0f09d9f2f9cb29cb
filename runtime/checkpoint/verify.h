// Reading a whole checkpoint and comparing every byte with what its manifest says.
//
// Checked are the manifest, the length of each file, the CRC-32C of each chunk and of the file, the
// headers, the vitals of every plane, the state hash, and the seal of cert.json. All that is wrong
// is listed, not only the first. The l2 norms are sums in another order than the writer's and are
// compared with a tolerance of 1e-9; everything else is exact. Reads with several threads, one
// chunk (8 MiB) of memory for each; writes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace muster {

// One thing that is wrong, and where: a file of the checkpoint, a byte in it.
struct CheckpointDamage {
  std::string file;
  std::uint64_t offset_bytes = 0;
  std::string what;
  bool names_range = false;  // `what` says which bytes: more than where they begin
};

struct CheckpointVerdict {
  std::uint64_t bytes = 0;  // of the shards, as far as they could be read
  std::vector<CheckpointDamage> damage;
  bool good() const { return damage.empty(); }
};

struct VerifySettings {
  unsigned threads = 1;
  // Told how many bytes have just been read; called by any of the threads, one at a time.
  std::function<void(std::uint64_t)> progress = {};
};

// Of the checkpoint at the directory `path`.
CheckpointVerdict verify_checkpoint(const std::string& path, const VerifySettings& settings);

}  // namespace muster
