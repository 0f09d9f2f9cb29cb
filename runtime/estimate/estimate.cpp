#include "runtime/estimate/estimate.h"

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

}  // namespace muster
