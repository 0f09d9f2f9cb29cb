#include "launcher/agent/watch/checkpoint_probe.h"

#include <algorithm>

#include "runtime/checkpoint/choose.h"

namespace muster {

namespace {

std::optional<CheckpointRef> ref_of(const FoundCheckpoint* found) {
  if (found == nullptr) return std::nullopt;
  return CheckpointRef{static_cast<std::int64_t>(found->step), found->path};
}

}  // namespace

CheckpointProbe probe_checkpoints(const std::string& directory,
                                  std::optional<std::int64_t> asked_step) {
  CheckpointSearch search = search_checkpoints(directory);
  CheckpointProbe probe;
  const auto asked = std::find_if(search.usable.begin(), search.usable.end(), [&](const auto& one) {
    return static_cast<std::int64_t>(one.step) == asked_step;
  });
  if (asked != search.usable.end()) probe.asked = ref_of(&*asked);
  probe.newest = ref_of(search.newest());
  probe.newest_certified = ref_of(search.newest(CheckpointGrade::certified));
  probe.trouble = std::move(search.trouble);
  return probe;
}

}  // namespace muster
