// Who writes checkpoints: the run, its generation, this rank's host. Decided once at start, by rank
// 0.
//
// The generation is the launcher's fencing epoch where there is one, raised above every generation
// that has already used the directory. A process that carries an epoch which its own run has used
// or passed is a leftover of a fenced-off attempt and must not write.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/environment.h"
#include "runtime/train/options.h"

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

// The generation to write as: above `highest`, the highest one known of. Throws StartError when
// `log` shows that this process comes too late.
std::uint64_t choose_generation(const RunIdentity& identity, const RankVariables& variables,
                                std::uint64_t highest, const ResumeLog& log);

}  // namespace muster
