#include "runtime/export/safetensors_files.h"

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/shard.h"
#include "runtime/export/export.h"
#include "runtime/layer/layer_norm.h"
#include "runtime/protocol/number_text.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

struct WeightsShard {
  std::string file;
  std::vector<const FlatParameter*> tensors;
  std::uint64_t bytes = 0;
};

std::string exported_name(const FlatParameter& tensor) {
  return tensor.name == "lm_head.weight" ? tensor.name : "transformer." + tensor.name;
}

std::string shard_file(std::size_t index, std::size_t count) {
  if (count == 1) return "model.safetensors";
  return printed("model-%05zu-of-%05zu.safetensors", index + 1, count);
}

std::vector<WeightsShard> split(const ExportedModel& model, std::uint64_t shard_bytes) {
  std::vector<WeightsShard> shards(1);
  for (const FlatParameter& tensor : model.tensors) {
    const std::uint64_t bytes = tensor_bytes(tensor);
    const std::uint64_t held = shards.back().bytes;
    if (held > 0 && (held > shard_bytes || bytes > shard_bytes - held)) shards.emplace_back();
    shards.back().tensors.push_back(&tensor);
    shards.back().bytes += bytes;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) shards[i].file = shard_file(i, shards.size());
  return shards;
}

std::string header_of(const WeightsShard& shard) {
  Json header;
  header["__metadata__"] = {{"format", "pt"}};  // transformers loads no other
  std::uint64_t at = 0;
  for (const FlatParameter* tensor : shard.tensors) {
    const std::uint64_t end = at + tensor_bytes(*tensor);
    header[exported_name(*tensor)] = {
        {"dtype", "F32"}, {"shape", tensor->shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  return safetensors_header(header.dump(), 8);
}

Checked<NoValue> write_shard_file(const WeightsShard& shard, CheckpointReader& reader,
                                  const std::string& directory) {
  const std::string header = header_of(shard);
  auto file = ExportFile::create(directory + "/" + shard.file, header.size() + shard.bytes);
  if (!file) return file.fault();
  if (auto put = file.value().append(header); !put) return put;
  for (const FlatParameter* tensor : shard.tensors) {
    if (auto put = file.value().append_tensor(reader, *tensor); !put) return put;
  }
  return file.value().sync_and_close();
}

std::string index_text(const std::vector<WeightsShard>& shards) {
  Json map = Json::object();
  std::uint64_t total = 0;
  for (const WeightsShard& shard : shards) {
    for (const FlatParameter* tensor : shard.tensors) map[exported_name(*tensor)] = shard.file;
    total += shard.bytes;
  }
  return Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n";
}

std::string config_text(const ExportedModel& model, const std::optional<std::uint64_t>& end_id) {
  const Json end = end_id ? Json(*end_id) : Json(nullptr);
  const Json config = {{"model_type", "gpt2"},
                       {"architectures", Json::array({"GPT2LMHeadModel"})},
                       {"activation_function", "gelu_new"},
                       {"n_layer", model.layers},
                       {"n_embd", model.width},
                       {"n_head", model.heads},
                       {"n_inner", nullptr},
                       {"n_ctx", model.context},
                       {"n_positions", model.context},
                       {"vocab_size", model.vocabulary},
                       {"layer_norm_epsilon", layer_norm_epsilon},
                       {"initializer_range", 0.02},
                       {"attn_pdrop", 0.0},
                       {"embd_pdrop", 0.0},
                       {"resid_pdrop", 0.0},
                       {"scale_attn_weights", true},
                       {"scale_attn_by_inverse_layer_idx", false},
                       {"reorder_and_upcast_attn", false},
                       {"tie_word_embeddings", model.tied},
                       {"bos_token_id", end},
                       {"eos_token_id", end},
                       {"use_cache", true},
                       {"torch_dtype", "float32"}};
  return config.dump(2) + "\n";
}

}  // namespace

Checked<NoValue> write_safetensors_files(const ExportedModel& model, CheckpointReader& reader,
                                         const SafetensorsTarget& target) {
  const std::vector<WeightsShard> shards = split(model, target.shard_bytes);
  for (const WeightsShard& shard : shards) {
    if (auto put = write_shard_file(shard, reader, target.directory); !put) return put;
  }
  if (shards.size() > 1) {
    const std::string name = "model.safetensors.index.json";
    if (auto put = replace_durably(target.directory, name, index_text(shards)); !put) return put;
  }
  return replace_durably(target.directory, "config.json", config_text(model, target.end_id));
}

}  // namespace muster
