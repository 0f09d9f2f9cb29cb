// Who writes checkpoints: the run, its generation (generation.h), this rank's host.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/protocol/environment.h"
#include "runtime/train/step/options.h"

namespace muster {

struct RunIdentity {
  std::string run_id;  // 32 hex digits
  std::uint64_t generation = 1;
  std::uint64_t config_hash = 0;
  std::uint64_t code_hash = 0;
};

// Of this machine; "unknown" when it does not say.
std::string host_name();

// Hash of the job's name, or of the options when no launcher gave one: equal runs get equal ids.
RunIdentity make_run_identity(const TrainOptions& options, const RankVariables& variables);

}  // namespace muster
