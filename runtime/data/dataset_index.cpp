// The JSON text of an index; the rest of token_dataset.h lies in token_dataset.cpp.
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/data/token_dataset.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/json_depth.h"
#include "scheduler/text/number.h"

namespace muster {
namespace {

using namespace fields;

constexpr const char* index_format = "muster-dataset";
constexpr std::uint64_t index_version = 1;
constexpr std::uint64_t vocabulary_limit = 1ull << 31;

Json shard_json(const DatasetShard& shard) {
  return {{"file", shard.path},
          {"version", shard.layout.version},
          {"token_bytes", shard.layout.token_bytes},
          {"tokens", shard.layout.tokens},
          {"documents", shard.layout.documents},
          {"bytes", shard.layout.file_bytes},
          {"chunk_crc32c", base64_of_u32(shard.chunk_crc32c)}};
}

DatasetShard shard_of(const Json& json, std::uint64_t vocabulary) {
  DatasetShard shard;
  shard.path = text(json, "file");
  require_plain_name(shard.path);
  const std::uint64_t version = whole_number(json, "version");
  const std::uint64_t token_bytes = whole_number(json, "token_bytes");
  const std::uint64_t tokens = whole_number(json, "tokens");
  const std::uint64_t documents = whole_number(json, "documents");
  require(version == 1 || version == 2, shard.path + ": expected version 1 or 2");
  require(token_bytes == 2 || (token_bytes == 4 && version == 2),
          shard.path + ": token_bytes does not fit the version");
  require(tokens > 0 && tokens <= token_count_limit && documents <= tokens,
          shard.path + ": tokens and documents are impossible");
  shard.layout =
      plan_token_shard(static_cast<std::uint32_t>(version), static_cast<std::uint32_t>(token_bytes),
                       vocabulary, tokens, documents);
  require(whole_number(json, "bytes") == shard.layout.file_bytes,
          shard.path + ": bytes does not match tokens and documents");
  auto checksums = u32_of_base64(text(json, "chunk_crc32c"));
  require(checksums && checksums->size() == shard.layout.chunks(),
          shard.path + ": chunk_crc32c: not one checksum per MiB");
  shard.chunk_crc32c = std::move(*checksums);
  return shard;
}

DatasetIndex index_of(const Json& json) {
  require(text(json, "format") == index_format, "format: expected muster-dataset");
  require(whole_number(json, "version") == index_version, "version: expected 1");
  DatasetIndex index;
  index.dataset.vocabulary = whole_number(json, "vocabulary");
  require(index.dataset.vocabulary > 0 && index.dataset.vocabulary <= vocabulary_limit,
          "vocabulary: expected 1 to 2147483648");
  index.dataset.tokenizer_hash = text(json, "tokenizer");
  index.documents = whole_number(json, "documents");
  std::uint64_t tokens = 0;
  for (const Json& shard : list(json, "shards")) {
    index.dataset.shards.push_back(shard_of(shard, index.dataset.vocabulary));
    tokens += index.dataset.shards.back().layout.tokens;
    require(tokens <= token_count_limit, "shards: too many tokens");
  }
  require(!index.dataset.shards.empty(), "shards: none");
  require(whole_number(json, "tokens") == tokens, "tokens: not the sum over the shards");
  return index;
}

}  // namespace

std::string format_dataset_index(const DatasetIndex& index) {
  Json shards = Json::array();
  for (const DatasetShard& shard : index.dataset.shards) shards.push_back(shard_json(shard));
  const Json document = {{"format", index_format},
                         {"version", index_version},
                         {"vocabulary", index.dataset.vocabulary},
                         {"tokenizer", index.dataset.tokenizer_hash},
                         {"documents", index.documents},
                         {"tokens", index.dataset.tokens()},
                         {"shards", std::move(shards)}};
  return seal_json(document.dump());
}

Checked<DatasetIndex> parse_dataset_index(std::string_view text, const std::string& path) {
  if (!is_sealed_json(text)) {
    return damaged_token_file(path, text.size(),
                              "the text does not end in a checksum that fits it: it was changed or "
                              "cut off");
  }
  if (nests_too_deeply(text)) return CheckpointFault{path + ": is nested too deeply", true};
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return CheckpointFault{path + ": is not JSON", true};
  try {
    return index_of(json);
  } catch (const FieldError& error) {
    return CheckpointFault{path + ": " + error.what(), true};
  }
}

}  // namespace muster
