// The directories of an attempt on this node: made before its ranks start, removed when nobody
// wants them any more. Blocking file work, no state.
#pragma once

#include <optional>
#include <string>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

// Job directories, and the code copy with its links ./outputs and ./logs to the durable ones; what
// the snapshot has under these names is moved there.
Status prepare_code(const AttemptLayout& layout);

// Everything else a rank expects to exist: spool, vitals, checkpoint and output directories.
Status prepare_attempt(const StartRanks& start, const AttemptLayout& layout,
                       const DataPaths& paths);

// StartRanks as received, for the agent after this one. Mode 0600: it holds environment values.
Status save_start(const AttemptLayout& layout, const StartRanks& start);
std::optional<StartRanks> load_start(const AttemptLayout& layout);

// The attempts whose spools lie in `root`.
std::vector<AttemptKey> attempts_below(const std::string& root);

// Open MPI's scratch space of an attempt that is over.
void remove_mpi_scratch(const AttemptLayout& layout);

bool path_exists(const std::string& path);

}  // namespace muster
