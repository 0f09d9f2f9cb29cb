// One file of tokens.
//
// Version 1, which tools of llm.c read: 256 little-endian int32 (20240520, 1, tokens, zeros), then
// the tokens as uint16, and nothing behind them; below 2^31 tokens.
//
// Version 2, our own: the same 1024 bytes hold
//
//   word 0..1   20240520, 2                 word 8..9    documents
//        2..3   tokens, 64 bits                  10..11  byte at which the document index begins
//        4      bytes of a token, 2 or 4         12..13  byte at which the checksums begin
//        5      vocabulary                       14      bytes under a checksum, 1048576
//        6..7   zero                             255     CRC-32C of the 1020 bytes before
//
// then the tokens, zeros up to a multiple of 8, the document index (for each document that begins
// in this file the position of its first token, uint64, rising), and the CRC-32C of every 1 MiB of
// all that, header included, followed by the CRC-32C of these checksums. All other words are zero.
//
// Plain functions; a fault names the file and the byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/file/durable_file.h"

namespace muster {

inline constexpr std::uint32_t token_shard_magic = 20240520;
inline constexpr std::uint64_t token_shard_header_bytes = 1024;
inline constexpr std::uint64_t token_chunk_bytes = 1 << 20;  // under one checksum
inline constexpr std::uint64_t token_count_limit = 1ull << 48;

struct TokenShardLayout {
  std::uint32_t version = 2;
  std::uint32_t token_bytes = 2;
  std::uint64_t tokens = 0;
  std::uint64_t vocabulary = 0;  // 0: the file does not say (version 1)
  std::uint64_t documents = 0;
  std::uint64_t documents_offset = 0;  // bytes; version 2
  std::uint64_t checksums_offset = 0;  // bytes; version 2
  std::uint64_t file_bytes = 0;
  std::uint64_t chunks() const { return (file_bytes + token_chunk_bytes - 1) / token_chunk_bytes; }
  friend bool operator==(const TokenShardLayout&, const TokenShardLayout&) = default;
};

// The layout of a file with these numbers.
TokenShardLayout plan_token_shard(std::uint32_t version, std::uint32_t token_bytes,
                                  std::uint64_t vocabulary, std::uint64_t tokens,
                                  std::uint64_t documents);

// The first 1024 bytes of a file, and back. `path` is for the message.
std::string format_token_shard_header(const TokenShardLayout& layout);
Checked<TokenShardLayout> parse_token_shard_header(std::string_view header,
                                                   const std::string& path);

// Whether the bytes begin as a file of tokens does, of whatever version.
bool looks_like_token_shard(std::string_view begin);

// Opens the file, reads its header, and compares its size with what the header promises.
Checked<TokenShardLayout> read_token_shard_layout(const std::string& path);

// The checksums inside a file of version 2: one per MiB of the bytes before them.
Checked<std::vector<std::uint32_t>> read_token_shard_checksums(const std::string& path,
                                                               const TokenShardLayout& layout);

// Reads the document index of a file of version 2 and checks that it rises below `tokens`.
Checked<std::vector<std::uint64_t>> read_token_shard_documents(const std::string& path,
                                                               const TokenShardLayout& layout);

// Writes directory/name durably, under another name until it is whole; the CRC-32C of every MiB of
// the whole file. `documents` are ignored in version 1.
Checked<std::vector<std::uint32_t>> write_token_shard(const std::string& directory,
                                                      const std::string& name,
                                                      const TokenShardLayout& layout,
                                                      std::span<const std::uint32_t> tokens,
                                                      std::span<const std::uint64_t> documents);

// The fault for wrong content at `byte` of `path`; `what` says what is wrong there.
CheckpointFault damaged_token_file(const std::string& path, std::uint64_t byte,
                                   const std::string& what);

}  // namespace muster
