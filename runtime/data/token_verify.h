// Reading files of tokens once to see whether they are what they were when they were written.
//
// Chunks are the MiBs of all files of a dataset, counted through. Ranks that read the same files
// each verify a part of them, so that the whole is read once at the speed of memory or disks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/token_dataset.h"

namespace muster {

struct ChunkRange {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
};

// The chunks that are the share of party number `party` of `parties`.
ChunkRange share_of_chunks(std::uint64_t chunks, std::size_t party, std::size_t parties);

// Reads the chunks in `range` with `threads` threads and returns their CRC-32C. A fault, which
// names the file and the byte, when one cannot be read, differs from the checksum in the index or,
// without an index, in the file, or holds a token of `vocabulary` or above; of several the first.
Checked<std::vector<std::uint32_t>> verify_chunks(const TokenDataset& dataset, ChunkRange range,
                                                  std::uint64_t vocabulary, std::size_t threads);

// Equal on two nodes only when they read the same files of one shared file system; `host` takes
// part when the files lie on a file system of the node.
std::string name_of_files(const TokenDataset& dataset, const std::string& host);

}  // namespace muster
