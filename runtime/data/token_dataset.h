// Which files of tokens make up the line of tokens that a run reads, and what is known of them.
//
// A dataset is a directory with `muster-dataset.json`, a JSON text sealed as in
// runtime/protocol/checkpoint_layout.h that names its shards in order, with their tokens, bytes and
// the CRC-32C of every MiB, the tokenizer's hash, and the vocabulary. A directory of *.bin files or
// a list of them, as tools of llm.c write them, is a dataset without checksums of its own: they are
// found by reading it. Several datasets in a row are one line of tokens.
//
// Headers and sizes of all files are compared with the index whenever a dataset is found.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/token_shard.h"

namespace muster {

inline constexpr const char* dataset_index_name = "muster-dataset.json";
// Stands beside shards that are not all there yet, until their index does.
inline constexpr const char* dataset_unfinished_name = "muster-dataset.unfinished";

struct DatasetShard {
  std::string path;
  TokenShardLayout layout;
  std::vector<std::uint32_t> chunk_crc32c;  // empty: not known yet
};

struct TokenDataset {
  std::vector<DatasetShard> shards;
  std::uint64_t vocabulary = 0;  // tokens are below it; 0: not known
  std::string tokenizer_hash;    // 16 hex digits; empty: not known

  std::uint64_t tokens() const;
  std::uint64_t bytes() const;
  std::uint64_t chunks() const;
  // Whether the checksums of all shards are known.
  bool has_checksums() const;
};

// What an index file says; paths are plain names until it is read from a directory.
struct DatasetIndex {
  TokenDataset dataset;
  std::uint64_t documents = 0;
};

// The sealed text, and back. `path` is for the message.
std::string format_dataset_index(const DatasetIndex& index);
Checked<DatasetIndex> parse_dataset_index(std::string_view text, const std::string& path);

// The *.bin files of a directory, sorted, when one of them is a file of tokens: then all have to
// be.
std::vector<std::string> find_token_shards(const std::string& directory);

// These files in this order, without checksums. A fault when they are a part of a dataset that is
// being written, or never was written to its end.
Checked<TokenDataset> dataset_of_files(const std::vector<std::string>& files);

// Gives each shard its part of the checksums of all chunks.
void set_checksums(TokenDataset& dataset, std::span<const std::uint32_t> chunk_crc32c);

// The index of `directory`, its shards with their whole paths.
Checked<DatasetIndex> read_dataset_index(const std::string& directory);

// The dataset that `paths` name, or none when they name text. A fault when one of its files is
// missing, damaged or of another size, when the tokenizers of several datasets differ, and when
// text and tokens are mixed.
Checked<std::optional<TokenDataset>> find_token_dataset(const std::vector<std::string>& paths);

// CRC-32C over what the shards hold: equal for equal tokens in equal files, wherever they lie.
// Needs has_checksums().
std::uint32_t dataset_identity(const TokenDataset& dataset);

// Reading files of tokens once to see whether they are what they were when they were written.
//
// Chunks are the MiBs of all files of a dataset, counted through. Ranks that read the same files
// each verify a part of them, so that the whole is read once at the speed of memory or disks.
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
