#include "runtime/data/token_shard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/protocol/crc32c.h"

namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little, "files of tokens are little-endian");

constexpr std::size_t header_words = token_shard_header_bytes / 4;
using Header = std::array<std::uint32_t, header_words>;

std::uint64_t wide(const Header& words, std::size_t at) {
  return words[at] | std::uint64_t{words[at + 1]} << 32;
}

void set_wide(Header& words, std::size_t at, std::uint64_t value) {
  words[at] = static_cast<std::uint32_t>(value);
  words[at + 1] = static_cast<std::uint32_t>(value >> 32);
}

std::uint64_t multiple_of_8(std::uint64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

std::uint64_t chunks_of(std::uint64_t bytes) {
  return (bytes + token_chunk_bytes - 1) / token_chunk_bytes;
}

Header words_of(const TokenShardLayout& layout) {
  Header words{};
  words[0] = token_shard_magic;
  words[1] = layout.version;
  words[2] = static_cast<std::uint32_t>(layout.tokens);
  if (layout.version == 1) return words;
  set_wide(words, 2, layout.tokens);
  words[4] = layout.token_bytes;
  words[5] = static_cast<std::uint32_t>(layout.vocabulary);
  set_wide(words, 8, layout.documents);
  set_wide(words, 10, layout.documents_offset);
  set_wide(words, 12, layout.checksums_offset);
  words[14] = token_chunk_bytes;
  words[header_words - 1] = crc32c_extend(0, words.data(), token_shard_header_bytes - 4);
  return words;
}

std::vector<std::uint32_t> checksums_of(std::string_view bytes) {
  std::vector<std::uint32_t> checksums;
  for (std::size_t at = 0; at < bytes.size(); at += token_chunk_bytes) {
    checksums.push_back(crc32c(bytes.substr(at, token_chunk_bytes)));
  }
  return checksums;
}

template <class Number>
void put(std::string& bytes, std::uint64_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

std::string content_of_shard(const TokenShardLayout& layout, std::span<const std::uint32_t> tokens,
                             std::span<const std::uint64_t> documents) {
  std::string bytes(layout.file_bytes, '\0');
  const std::string header = format_token_shard_header(layout);
  std::memcpy(bytes.data(), header.data(), header.size());
  std::uint64_t at = token_shard_header_bytes;
  for (const std::uint32_t token : tokens) {
    if (layout.token_bytes == 2) put(bytes, at, static_cast<std::uint16_t>(token));
    if (layout.token_bytes == 4) put(bytes, at, token);
    at += layout.token_bytes;
  }
  if (layout.version == 1) return bytes;
  at = layout.documents_offset;
  for (const std::uint64_t document : documents) put(bytes, std::exchange(at, at + 8), document);
  const auto checksums = checksums_of(std::string_view(bytes).substr(0, layout.checksums_offset));
  const std::uint64_t table_bytes = checksums.size() * 4;
  std::memcpy(bytes.data() + layout.checksums_offset, checksums.data(), table_bytes);
  put(bytes, layout.checksums_offset + table_bytes,
      crc32c_extend(0, checksums.data(), table_bytes));
  return bytes;
}

}  // namespace

CheckpointFault damaged_token_file(const std::string& path, std::uint64_t byte,
                                   const std::string& what) {
  return {path + ": byte " + std::to_string(byte) + ": " + what, true};
}

TokenShardLayout plan_token_shard(std::uint32_t version, std::uint32_t token_bytes,
                                  std::uint64_t vocabulary, std::uint64_t tokens,
                                  std::uint64_t documents) {
  TokenShardLayout layout{version, token_bytes, tokens, version == 1 ? 0 : vocabulary};
  const std::uint64_t tokens_end = token_shard_header_bytes + tokens * token_bytes;
  layout.file_bytes = tokens_end;
  if (version == 1) return layout;
  layout.documents = documents;
  layout.documents_offset = multiple_of_8(tokens_end);
  layout.checksums_offset = layout.documents_offset + documents * 8;
  layout.file_bytes = layout.checksums_offset + (chunks_of(layout.checksums_offset) + 1) * 4;
  return layout;
}

std::string format_token_shard_header(const TokenShardLayout& layout) {
  const Header words = words_of(layout);
  return {reinterpret_cast<const char*>(words.data()), token_shard_header_bytes};
}

bool looks_like_token_shard(std::string_view begin) {
  std::uint32_t magic = 0;
  if (begin.size() >= sizeof magic) std::memcpy(&magic, begin.data(), sizeof magic);
  return magic == token_shard_magic;
}

Checked<TokenShardLayout> parse_token_shard_header(std::string_view header,
                                                   const std::string& path) {
  if (header.size() < token_shard_header_bytes) {
    return damaged_token_file(path, header.size(), "the file ends inside its header of 1024 bytes");
  }
  Header words;
  std::memcpy(words.data(), header.data(), token_shard_header_bytes);
  if (words[0] != token_shard_magic) {
    return damaged_token_file(
        path, 0,
        "is no file of tokens: expected the number 20240520, got " + std::to_string(words[0]));
  }
  if (words[1] != 1 && words[1] != 2) {
    return damaged_token_file(
        path, 4, "expected version 1 or 2 of a file of tokens, got " + std::to_string(words[1]));
  }
  const bool plain = words[1] == 1;
  if (!plain && words[header_words - 1] != crc32c(header.substr(0, token_shard_header_bytes - 4))) {
    return damaged_token_file(path, 1020, "the checksum of the header is wrong");
  }
  const std::uint64_t tokens = plain ? words[2] : wide(words, 2);
  const std::uint32_t token_bytes = plain ? 2 : words[4];
  const std::uint64_t documents = plain ? 0 : wide(words, 8);
  if (tokens == 0 || tokens > (plain ? 0x7FFFFFFFull : token_count_limit) || documents > tokens ||
      (token_bytes != 2 && token_bytes != 4)) {
    return damaged_token_file(path, 8, "the counts in the header are impossible");
  }
  const TokenShardLayout layout =
      plan_token_shard(words[1], token_bytes, plain ? 0 : words[5], tokens, documents);
  if (!plain && words_of(layout) != words) {
    return damaged_token_file(path, 8, "the words of the header contradict each other");
  }
  return layout;
}

Checked<TokenShardLayout> read_token_shard_layout(const std::string& path) {
  const auto file = CheckpointFile::open_for_reading(path);
  if (!file) return file.fault();
  const auto size = file.value().size();
  if (!size) return size.fault();
  std::string header(std::min(size.value(), token_shard_header_bytes), '\0');
  if (auto got = file.value().read_at(0, header.data(), header.size()); !got) return got.fault();
  auto layout = parse_token_shard_header(header, path);
  if (!layout || layout.value().file_bytes == size.value()) return layout;
  const std::uint64_t promised = layout.value().file_bytes;
  return damaged_token_file(path, std::min(size.value(), promised),
                            "the file has " + std::to_string(size.value()) +
                                " bytes, its header promises " + std::to_string(promised));
}

Checked<std::vector<std::uint32_t>> read_token_shard_checksums(const std::string& path,
                                                               const TokenShardLayout& layout) {
  const auto file = CheckpointFile::open_for_reading(path);
  if (!file) return file.fault();
  std::vector<std::uint32_t> checksums(chunks_of(layout.checksums_offset) + 1);
  auto got = file.value().read_at(layout.checksums_offset, checksums.data(), checksums.size() * 4);
  if (!got) return got.fault();
  const std::uint32_t seal = checksums.back();
  checksums.pop_back();
  if (seal != crc32c_extend(0, checksums.data(), checksums.size() * 4)) {
    return damaged_token_file(path, layout.checksums_offset, "the checksums are damaged");
  }
  return checksums;
}

Checked<std::vector<std::uint64_t>> read_token_shard_documents(const std::string& path,
                                                               const TokenShardLayout& layout) {
  const auto file = CheckpointFile::open_for_reading(path);
  if (!file) return file.fault();
  std::vector<std::uint64_t> documents(layout.documents);
  auto got = file.value().read_at(layout.documents_offset, documents.data(), documents.size() * 8);
  if (!got) return got.fault();
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (documents[i] < layout.tokens && (i == 0 || documents[i - 1] < documents[i])) continue;
    return damaged_token_file(path, layout.documents_offset + i * 8,
                              "the document index does not rise below the number of tokens");
  }
  return documents;
}

Checked<std::vector<std::uint32_t>> write_token_shard(const std::string& directory,
                                                      const std::string& name,
                                                      const TokenShardLayout& layout,
                                                      std::span<const std::uint32_t> tokens,
                                                      std::span<const std::uint64_t> documents) {
  const std::string bytes = content_of_shard(layout, tokens, documents);
  if (auto put_all = replace_durably(directory, name, bytes); !put_all) return put_all.fault();
  return checksums_of(bytes);
}

}  // namespace muster
