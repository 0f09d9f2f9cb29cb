// All that is said about a run before it is started: memory per rank in every stage, whether it
// fits, what would make it fit, how long a step takes. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/estimate/rank_memory.h"
#include "runtime/model/gpt.h"

namespace muster {

// Sizes of machines that can be rented, with what decides whether a model fits them and how fast
// they train it. Plain data.
struct SkuFacts {
  std::string_view name;         // of Azure, without "Standard_"
  unsigned gpus = 0;             // 0: a machine that computes with its processors
  std::string_view gpu = {};     // model
  double gpu_memory_gib = 0;     // of one
  double gpu_peak_tflops = 0;    // of one: dense bf16 (fp16 where it has none), fp32 sums
  double gpu_link_gbyte_s = 0;   // all-reduce bus bandwidth inside a machine
  unsigned infiniband_nics = 0;  // 0: none
  double infiniband_gbit_s = 0;  // of one
  double ethernet_gbit_s = 0;
  double memory_gib = 0;  // of the host
};

// With or without "Standard_"; letter case does not matter.
std::optional<SkuFacts> find_sku(std::string_view name);

std::string names_of_skus();

// Bytes per second that one rank sends in a collective operation over all ranks.
double link_bytes_per_s(const SkuFacts& sku, bool between_machines);

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

// `muster-train estimate`: what a run would take, before it is started.

// What the words of a command ask, options of a training run among them; or the exit code when
// there is nothing to answer (help was printed, or a complaint).
struct EstimateRequest {
  EstimateQuestion question;
  bool as_json = false;
};
std::variant<EstimateRequest, int> parse_estimate(int argc, const char* const* argv);

// argv[0] is "estimate". Returns the exit code: 0, or 1 where the run does not fit, or 2.
int run_estimate_command(int argc, const char* const* argv);

}  // namespace muster
