// All that is said about a run before it is started: memory per rank in every stage, whether it
// fits, what would make it fit, how long a step takes. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/estimate/fit.h"
#include "runtime/estimate/sku_catalogue.h"
#include "runtime/model/gpt.h"

namespace muster {

inline constexpr double gib = 1024.0 * 1024 * 1024;

struct EstimateQuestion {
  std::string model;     // its name, or empty
  TrainOptions options;  // vocabulary and batch are not 0
  RankLayout layout;
  std::optional<SkuFacts> sku;
  std::optional<MemoryLimit> limit;
  RankRates rates;
};

struct StageEstimate {
  ZeroStage stage = ZeroStage::nothing;
  bool recomputes = false;
  RankMemory memory;
  std::optional<bool> fits;
};

struct Estimate {
  EstimateQuestion question;
  std::vector<StageEstimate> stages;   // all, without and with recomputation
  StageEstimate asked;                 // the stage of the question
  std::vector<FittingChange> changes;  // where it does not fit
  StepTime time;                       // compute_s is 0 where no peak is known
};

// Throws StartError when no run can have the options.
Estimate make_estimate(const EstimateQuestion& question);

std::string estimate_text(const Estimate& estimate);
std::string estimate_json(const Estimate& estimate);

// Models that have a name, and their shapes. Context is left to the run. Plain data.

// With vocabularies as they are trained: padded for matrix products. Letter case does not matter.
std::optional<GptShape> named_shape(std::string_view name);

// All names, for help and complaints.
std::string names_of_shapes();

}  // namespace muster
