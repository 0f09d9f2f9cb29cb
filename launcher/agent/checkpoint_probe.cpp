#include "launcher/agent/checkpoint_probe.h"

#include "runtime/checkpoint/choose.h"

namespace muster {

std::optional<CheckpointRef> probe_checkpoint(const std::string& directory) {
  const auto found = find_newest_checkpoint(directory);
  if (!found) return {};
  return CheckpointRef{static_cast<std::int64_t>(found->step), found->path};
}

}  // namespace muster
