#include "runtime/export/export.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/shard.h"
#include "runtime/export/onnx_file.h"
#include "runtime/layer/layers.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/number_text.h"

static_assert(std::endian::native == std::endian::little, "exported values are little-endian");

namespace muster {
namespace {

const FlatParameter* find(const std::vector<FlatParameter>& params, const std::string& name) {
  const auto found = std::find_if(params.begin(), params.end(),
                                  [&](const FlatParameter& param) { return param.name == name; });
  return found == params.end() ? nullptr : &*found;
}

Checked<std::uint64_t> head_count(const TrainState& train, std::uint64_t width) {
  const auto option = train.config.find("heads");
  if (option == train.config.end()) {
    return CheckpointFault{"its options do not say how many heads it has"};
  }
  const std::string& text = option->second;
  const std::uint64_t heads = read_whole_number(text).value_or(0);
  if (heads == 0 || width % heads != 0) {
    return CheckpointFault{"heads: '" + text + "' does not divide the width " +
                           std::to_string(width)};
  }
  return heads;
}

// Weights in the layout of Hugging Face's transformers for GPT2LMHeadModel: config.json and
// model.safetensors, or above the wanted size model-0000i-of-0000n.safetensors and
// model.safetensors.index.json.
//
// Tensors bear the names that transformers itself saves, `transformer.` before all but
// `lm_head.weight`: with an untied head it takes no others. A tied head is not stored twice. Shapes
// are those of its Conv1D, [in, out], which are ours. A tensor is never cut: one that is larger
// than the wanted size has a file of its own.

struct SafetensorsTarget {
  std::string directory;
  std::uint64_t shard_bytes = 0;             // of tensors in one file
  std::optional<std::uint64_t> end_id = {};  // the token that ends a document, and begins one
};

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

// The tokenizer that belongs to exported weights, in the layout of Hugging Face: tokenizer.json as
// the run kept it beside its checkpoints (protocol/checkpoint_layout.h), and what transformers asks
// for besides.

struct ExportedTokenizer {
  std::string file;  // tokenizer.json
  // The token that ends a document, and its text where it is a special one.
  std::optional<std::uint64_t> end_id;
  std::string end_text;
};

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

// Nothing where the run kept none: its tokens came without a tokenizer, or it is an older run.
Checked<std::optional<ExportedTokenizer>> find_tokenizer(const std::string& root,
                                                         std::uint32_t data_crc32c) {
  const std::string path = root + "/" + kept_tokenizer_name(data_crc32c);
  if (!may_exist(path)) return std::optional<ExportedTokenizer>();
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

namespace fs = std::filesystem;

// A directory that becomes the wanted one, or is removed.
class PartialDirectory {
 public:
  explicit PartialDirectory(std::string wanted) : wanted_(std::move(wanted)) {}
  ~PartialDirectory() {
    std::error_code code;
    if (is_ours_) fs::remove_all(path(), code);
  }
  PartialDirectory(const PartialDirectory&) = delete;
  PartialDirectory& operator=(const PartialDirectory&) = delete;

  std::string path() const { return wanted_ + ".partial"; }

  Checked<NoValue> begin() {
    std::error_code code;
    if (fs::exists(wanted_, code) &&
        !(fs::is_directory(wanted_, code) && fs::is_empty(wanted_, code))) {
      return CheckpointFault{wanted_ + " is not empty, or no directory: name another one"};
    }
    if (code) return CheckpointFault{wanted_ + ": cannot be looked at: " + code.message()};
    const std::string parent = fs::path(wanted_).parent_path().string();
    if (auto made = make_checkpoint_directory(parent); !made) return made;
    is_ours_ = fs::create_directory(path(), code);
    if (code) return CheckpointFault{path() + ": cannot be created: " + code.message()};
    if (is_ours_) return NoValue{};
    return CheckpointFault{path() +
                           " is there already: another export writes it, or was ended: remove it, "
                           "or name another directory"};
  }

  Checked<NoValue> finish() {
    if (auto synced = sync_checkpoint_directory(path()); !synced) return synced;
    std::error_code code;
    fs::rename(path(), wanted_, code);
    if (code) return CheckpointFault{path() + ": cannot be renamed: " + code.message()};
    is_ours_ = false;
    return sync_checkpoint_directory(fs::path(wanted_).parent_path().string());
  }

 private:
  std::string wanted_;
  bool is_ours_ = false;  // made here, and not renamed yet
};

Checked<NoValue> write_files(const std::string& path, const Manifest& manifest,
                             const ExportOptions& options, const std::string& directory) {
  const auto model = exported_model(manifest);
  if (!model) return model.fault();
  const std::string root = fs::absolute(path).lexically_normal().parent_path().string();
  const auto tokenizer = find_tokenizer(root, manifest.train.sampler.data_crc32c);
  if (!tokenizer) return tokenizer.fault();
  const std::optional<ExportedTokenizer>& known = tokenizer.value();
  if (known) {
    auto put = write_tokenizer_files(*known, model.value().context, directory);
    if (!put) return put;
  }
  CheckpointReader reader(path, manifest);
  if (options.format == ExportFormat::onnx) {
    return write_onnx_file(model.value(), reader, directory, options.external_data);
  }
  const auto end_id = known ? known->end_id : std::nullopt;
  return write_safetensors_files(model.value(), reader, {directory, options.shard_bytes, end_id});
}

std::vector<ExportedFile> files_in(const std::string& directory) {
  std::vector<ExportedFile> files;
  std::error_code code;
  for (fs::directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    files.push_back({at->path().filename().string(), at->file_size(code)});
  }
  std::sort(files.begin(), files.end(),
            [](const ExportedFile& a, const ExportedFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace

std::uint64_t ExportedModel::bytes() const {
  std::uint64_t sum = 0;
  for (const FlatParameter& tensor : tensors) sum += tensor.size() * sizeof(float);
  return sum;
}

Checked<ExportedModel> exported_model(const Manifest& manifest) {
  ExportedModel model;
  model.tensors = manifest.flat.params;
  const FlatParameter* tokens = find(model.tensors, "wte.weight");
  const FlatParameter* positions = find(model.tensors, "wpe.weight");
  if (tokens == nullptr || positions == nullptr || tokens->shape.size() != 2 ||
      positions->shape.size() != 2) {
    return CheckpointFault{"it holds no GPT: there are no tables wte.weight and wpe.weight"};
  }
  model.vocabulary = tokens->shape[0];
  model.width = tokens->shape[1];
  model.context = positions->shape[0];
  model.tied = find(model.tensors, "lm_head.weight") == nullptr;
  model.layers = 0;
  while (find(model.tensors, "h." + std::to_string(model.layers) + ".ln_1.weight") != nullptr) {
    ++model.layers;
  }
  const auto heads = head_count(manifest.train, model.width);
  if (!heads) return heads.fault();
  model.heads = heads.value();
  const std::vector<FlatParameter> expected = gpt_flat_space(model).params;
  for (const FlatParameter& tensor : expected) {
    const FlatParameter* held = find(model.tensors, tensor.name);
    if (held == nullptr) return CheckpointFault{"it holds no GPT: " + tensor.name + " is missing"};
    if (held->shape != tensor.shape) {
      return CheckpointFault{"it holds no GPT: " + tensor.name + " has another shape"};
    }
  }
  if (expected.size() != model.tensors.size()) {
    return CheckpointFault{"it holds more tensors than a GPT has"};
  }
  return model;
}

Checked<std::vector<ExportedFile>> export_checkpoint(const std::string& path,
                                                     const ExportOptions& options) {
  const auto manifest = read_manifest(path);
  if (!manifest) return manifest.fault();
  const std::string wanted = normal_path(options.directory);
  PartialDirectory partial(wanted);
  if (auto begun = partial.begin(); !begun) return begun.fault();
  auto written = write_files(path, manifest.value(), options, partial.path());
  if (!written) return written.fault();
  std::vector<ExportedFile> files = files_in(partial.path());
  if (options.complete) {
    if (auto completed = options.complete(partial.path(), files); !completed) {
      return completed.fault();
    }
  }
  if (auto finished = partial.finish(); !finished) return finished.fault();
  return files;
}

Checked<ExportFile> ExportFile::create(const std::string& path, std::uint64_t bytes) {
  auto file = CheckpointFile::create(path, bytes);
  if (!file) return file.fault();
  return ExportFile(std::move(file.value()));
}

Checked<NoValue> ExportFile::append(std::string_view bytes) {
  auto put = file_.write_at(offset_, bytes.data(), bytes.size());
  if (put) offset_ += bytes.size();
  return put;
}

Checked<NoValue> ExportFile::append_tensor(CheckpointReader& reader, const FlatParameter& tensor) {
  constexpr std::uint64_t piece_elements = 1 << 20;
  const std::uint64_t end = tensor.offset + tensor.size();
  for (std::uint64_t at = tensor.offset; at < end; at += piece_.size()) {
    piece_.resize(std::min(piece_elements, end - at));
    if (auto got = reader.read(0, at, piece_); !got) return got;
    const auto* bytes = reinterpret_cast<const char*>(piece_.data());
    if (auto put = append({bytes, piece_.size() * sizeof(float)}); !put) return put;
  }
  return NoValue{};
}

}  // namespace muster
