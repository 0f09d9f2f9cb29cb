// Data of stores as a part of preparing a node: held in the cache by the agent, fetched by its
// child.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/node/child_tasks.h"
#include "launcher/data/cache.h"
#include "launcher/os/fd.h"

namespace muster {

class BlobStore;

// In the agent, before its child begins: as long as these are open, no other job removes the data.
Result<std::vector<Fd>> hold_data(const StageTrees& request, const RunDirectory& run);

// In the child: what the inputs of the job lead to. Nothing: all is there.
std::optional<StagingFailure> bring_data(const StageTrees& request, const BlobStore& store,
                                         const RunDirectory& run, const AttemptLayout& layout,
                                         const ChildTasks::Tell& tell);

}  // namespace muster
