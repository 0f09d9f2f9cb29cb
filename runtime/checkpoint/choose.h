// Choosing the checkpoint to resume from, by looking at a directory and nothing else.
//
// A candidate needs a valid manifest, every shard present with its exact size, no quarantine, and a
// place on the lineage: (step, gen) counts only if every later generation began at a step >= its
// own, so that late writes of a process that was fenced off never win. The newest is the highest
// step, then the highest generation. Reading the values themselves and their checksums is the
// loader's work. Read-only; any thread; never throws.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/resume_log.h"

namespace muster {

struct FoundCheckpoint {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  std::string directory;  // its name, such as s000001200-g3
  std::string path;
  CheckpointGrade grade = CheckpointGrade::committed;
  double loss_ema = 0;  // recent loss when it was saved; 0: not known
};

struct RejectedCheckpoint {
  std::string directory;
  std::string reason;
  bool committed = false;  // it has a manifest: somebody's work, not the remains of a crash
  std::optional<CheckpointQuarantine> quarantine = {};
};

struct CheckpointSearch {
  std::vector<FoundCheckpoint> usable;       // newest first
  std::vector<RejectedCheckpoint> rejected;  // by name
  std::vector<GenerationFork> forks;         // known generations, by number
  std::uint64_t highest_generation = 0;      // in names, log and lineage; 0 in an empty directory
  std::string trouble;  // why not everything could be looked at; empty: it could
  // The newest usable one of this grade or a higher one, or null.
  const FoundCheckpoint* newest(CheckpointGrade at_least = CheckpointGrade::committed) const;
};

// Looks through `root`. A directory that does not exist holds nothing; one that cannot be listed
// is trouble.
CheckpointSearch search_checkpoints(const std::string& root);

// Reads and parses path/manifest.json and compares it with the directory's name.
Checked<Manifest> read_manifest_alone(const std::string& path);

// As above, and checks that every shard is there with its size.
Checked<Manifest> read_manifest(const std::string& path);

// The lineage rule alone. `forks` may stand in any order.
bool is_on_lineage(std::uint64_t step, std::uint64_t generation,
                   const std::vector<GenerationFork>& forks);

// Reading values out of a committed checkpoint, at any number of ranks.
//
// A reader asks for a range of one plane; the shard table says which files hold it. Whole chunks
// are read and their CRC-32C compared before a value is handed out, and so is the chunk with each
// file's header. There is no conversion and no gathering. One reader is used by one thread.
class CheckpointReader {
 public:
  // `path` is the checkpoint's directory; `manifest` what was read from it.
  CheckpointReader(std::string path, const Manifest& manifest);

  // Fills `out` with elements [first, first + out.size()) of plane `plane` (0 master, 1 exp_avg, 2
  // exp_avg_sq).
  Checked<NoValue> read(std::size_t plane, std::uint64_t first, std::span<float> out);

 private:
  Checked<NoValue> read_from_shard(std::size_t shard, std::uint64_t offset_bytes,
                                   std::span<float> out);
  Checked<NoValue> load_chunk(std::size_t shard, std::uint64_t chunk);

  std::string path_;
  const Manifest& manifest_;
  // The last chunk that was read and found good.
  std::vector<char> chunk_;
  std::size_t chunk_shard_ = ~std::size_t{0};
  std::uint64_t chunk_index_ = 0;
  std::vector<bool> header_checked_;  // by shard
};

// A path as a person may have typed it, in the form in which paths are compared and taken apart.

// Absolute, without "." and "..", and without "/" at its end unless it is the root. Links stay.
std::string normal_path(const std::string& path);

}  // namespace muster
