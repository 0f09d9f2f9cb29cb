// Reading values out of a committed checkpoint, at any number of ranks.
//
// A reader asks for a range of one plane; the shard table says which files hold it. Whole chunks
// are read and their CRC-32C compared before a value is handed out, and so is the chunk with each
// file's header. There is no conversion and no gathering. One reader is used by one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/manifest.h"

namespace muster {

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
