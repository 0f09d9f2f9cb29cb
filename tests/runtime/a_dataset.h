// Builds datasets of tokens for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/shard_cache.h"
#include "runtime/tokenize/tokenize.h"
#include "tests/catch.h"
#include "tests/runtime/folder.h"

namespace muster::test {

// Token i of the line that a ADataset writes.
inline std::uint32_t token_number(std::uint64_t i, std::uint64_t vocabulary) {
  return static_cast<std::uint32_t>((i * 2654435761u >> 7) % vocabulary);
}

struct ADataset {
  std::string directory;
  std::uint64_t tokens = 1000;
  std::uint64_t shard_tokens = 300;
  std::uint64_t vocabulary = 500;
  std::uint32_t version = 2;
  std::string tokenizer_hash = "0123456789abcdef";

  // A document begins every 70 tokens.
  DatasetIndex write() const {
    std::vector<std::uint32_t> line(tokens);
    std::vector<std::uint64_t> begins;
    for (std::uint64_t i = 0; i < tokens; ++i) {
      line[i] = token_number(i, vocabulary);
      if (i % 70 == 0) begins.push_back(i);
    }
    DatasetWriter writer({directory, version, shard_tokens, vocabulary, tokenizer_hash});
    writer.add(line, begins);
    return writer.finish();
  }

  std::string shard(int number) const {
    return directory + "/tokens-00000" + std::to_string(number) + ".bin";
  }
};

inline TokenDataset found_at(const std::string& path) {
  auto found = find_token_dataset({path});
  REQUIRE(found);
  REQUIRE(found.value());
  return *found.value();
}

inline std::unique_ptr<ShardTokens> opened(const TokenDataset& dataset,
                                           std::vector<std::string>* warnings = nullptr,
                                           std::uint64_t vocabulary = 1ull << 32) {
  auto line = ShardTokens::open(dataset, vocabulary, [warnings](const std::string& warning) {
    if (warnings != nullptr) warnings->push_back(warning);
  });
  REQUIRE(line);
  return std::move(line.value());
}

// `path` with byte `at` changed.
inline void damage(const std::string& path, std::size_t at) {
  std::string content = content_of(path);
  REQUIRE(at < content.size());
  content[at] = static_cast<char>(content[at] ^ 0x20);
  put(path, content);
}

}  // namespace muster::test
