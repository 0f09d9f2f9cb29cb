#include "runtime/estimate/estimate.h"

#include <algorithm>
#include <cctype>

namespace muster {

namespace {

StageEstimate estimate_stage(const EstimateQuestion& question, ZeroStage stage, bool recomputes) {
  TrainOptions options = question.options;
  options.zero = stage;
  options.model.recompute = recomputes;
  StageEstimate estimate{stage, recomputes, rank_memory(options, question.layout), {}};
  if (question.limit) {
    estimate.fits = fits(estimate.memory, *question.limit, question.layout.kind);
  }
  return estimate;
}

constexpr std::size_t gpt2_vocabulary = 50304;      // 50257, padded to a multiple of 128
constexpr std::size_t megatron_vocabulary = 51200;  // the same text, padded for tensor parallelism

struct NamedShape {
  std::string_view name;
  std::size_t layers, width, heads, vocabulary;
};

// GPT-2: Radford et al. 2019, as its published weights are. GPT-3 XL and 175B: arXiv 2005.14165,
// table 2.1. 530B: arXiv 2201.11990. 1T: arXiv 2104.04473, table 1. 2T: the shape for which 157
// TFLOP/s per A100 were published with ZeRO-3 (DeepSpeed on Azure, 2022): 160 layers of 32768.
constexpr NamedShape shapes[] = {
    {"gpt2-124m", 12, 768, 12, gpt2_vocabulary},    {"gpt2-350m", 24, 1024, 16, gpt2_vocabulary},
    {"gpt2-774m", 36, 1280, 20, gpt2_vocabulary},   {"gpt2-1558m", 48, 1600, 25, gpt2_vocabulary},
    {"gpt3-xl", 24, 2048, 16, gpt2_vocabulary},     {"175b", 96, 12288, 96, megatron_vocabulary},
    {"530b", 105, 20480, 128, megatron_vocabulary}, {"1t", 128, 25600, 160, megatron_vocabulary},
    {"2t", 160, 32768, 128, megatron_vocabulary},
};

}  // namespace

Estimate make_estimate(const EstimateQuestion& question) {
  Estimate estimate;
  estimate.question = question;
  for (const bool recomputes : {false, true}) {
    for (const ZeroStage stage :
         {ZeroStage::nothing, ZeroStage::moments, ZeroStage::gradients, ZeroStage::weights}) {
      estimate.stages.push_back(estimate_stage(question, stage, recomputes));
    }
  }
  const TrainOptions& options = question.options;
  estimate.asked = estimate_stage(question, options.zero, options.model.recompute);
  if (estimate.asked.fits == false) {
    estimate.changes = cheapest_changes(options, question.layout, *question.limit, question.rates);
  }
  estimate.time = step_time(options, question.layout, question.rates);
  return estimate;
}

std::optional<GptShape> named_shape(std::string_view name) {
  const auto is_same = [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  };
  for (const NamedShape& shape : shapes) {
    if (!std::ranges::equal(shape.name, name, is_same)) continue;
    return GptShape{.layers = shape.layers,
                    .width = shape.width,
                    .heads = shape.heads,
                    .context = 1024,
                    .vocabulary = shape.vocabulary};
  }
  return std::nullopt;
}

std::string names_of_shapes() {
  std::string names;
  for (const NamedShape& shape : shapes) {
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  return names;
}

}  // namespace muster
