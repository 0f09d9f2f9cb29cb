#include "launcher/agent/checkpoint_probe.h"

#include "runtime/checkpoint/choose.h"

namespace muster {

CheckpointProbe probe_checkpoints(const std::string& directory) {
  CheckpointSearch search = search_checkpoints(directory);
  CheckpointProbe probe;
  if (const FoundCheckpoint* found = search.newest()) {
    probe.newest = CheckpointRef{static_cast<std::int64_t>(found->step), found->path};
  }
  probe.trouble = std::move(search.trouble);
  return probe;
}

}  // namespace muster
