// What every checkpoint of a run says about the run, and where they lie.
#pragma once

#include <string>

#include "runtime/protocol/environment.h"
#include "runtime/train/save/save.h"
#include "runtime/train/step/batch_plan.h"
#include "runtime/train/step/options.h"

namespace muster {

// Empty: none are written.
std::string checkpoint_root(const TrainOptions& options, const RankVariables& variables);

// All but what a generation adds: its number, lineage, nodes and the checkpoint before it.
// `windows` are those of the sampler, `data` the fingerprint of the text.
SaveContext make_save_context(const TrainOptions& options, const RankVariables& variables,
                              const BatchPlan& plan, const SamplerState& data,
                              std::uint64_t windows);

}  // namespace muster
