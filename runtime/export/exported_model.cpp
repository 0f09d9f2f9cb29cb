#include "runtime/export/exported_model.h"

#include <algorithm>

#include "runtime/protocol/number_text.h"

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

}  // namespace muster
