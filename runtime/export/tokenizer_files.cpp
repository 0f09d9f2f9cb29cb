#include "runtime/export/tokenizer_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/json_depth.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t limit_bytes = 256ull << 20;
constexpr const char* usual_end = "<|endoftext|>";
constexpr const char* printable_byte_0 = "\u0100";  // in GPT-2's table of bytes

// The special token that ends a document: the usual one, or the only one; without any byte 0.
void find_end(const nlohmann::json& json, ExportedTokenizer& tokenizer) {
  const auto special = json.value("added_tokens", nlohmann::json::array());
  for (const auto& token : special) {
    const std::string text = token.at("content").get<std::string>();
    if (text != usual_end && special.size() > 1) continue;
    tokenizer.end_id = token.at("id").get<std::uint64_t>();
    tokenizer.end_text = text;
  }
  const auto& vocabulary = json.at("model").at("vocab");
  const auto byte_0 = vocabulary.find(printable_byte_0);
  if (special.empty() && byte_0 != vocabulary.end()) {
    tokenizer.end_id = byte_0->get<std::uint64_t>();
  }
}

}  // namespace

Checked<std::optional<ExportedTokenizer>> find_tokenizer(const std::string& root,
                                                         std::uint32_t data_crc32c) {
  const std::string path = root + "/" + kept_tokenizer_name(data_crc32c);
  std::error_code code;
  if (!std::filesystem::exists(path, code) && !code) return std::optional<ExportedTokenizer>();
  auto text = read_checkpoint_text(path, limit_bytes);
  if (!text) return text.fault();
  ExportedTokenizer tokenizer;
  tokenizer.file = std::move(text.value());
  if (nests_too_deeply(tokenizer.file)) return CheckpointFault{path + ": is nested too deeply"};
  try {
    find_end(nlohmann::json::parse(tokenizer.file), tokenizer);
  } catch (const nlohmann::json::exception& error) {
    return CheckpointFault{path + ": is no tokenizer: " + error.what()};
  }
  return std::optional(std::move(tokenizer));
}

Checked<NoValue> write_tokenizer_files(const ExportedTokenizer& tokenizer, std::uint64_t context,
                                       const std::string& directory) {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"model_max_length", context},
                 {"clean_up_tokenization_spaces", false}};
  if (!tokenizer.end_text.empty()) {
    config["bos_token"] = config["eos_token"] = tokenizer.end_text;
    const Json special = {{"bos_token", tokenizer.end_text}, {"eos_token", tokenizer.end_text}};
    auto put = replace_durably(directory, "special_tokens_map.json", special.dump(2) + "\n");
    if (!put) return put;
  }
  auto put = replace_durably(directory, "tokenizer_config.json", config.dump(2) + "\n");
  if (!put) return put;
  return replace_durably(directory, "tokenizer.json", tokenizer.file);
}

}  // namespace muster
