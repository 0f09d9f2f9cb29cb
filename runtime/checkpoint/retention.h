// Deleting what is no longer needed: checkpoints beyond the newest few, and orphans.
//
// Only the newest generation deletes, and only after a commit was read back. A checkpoint goes by
// unlinking its manifest, fsync, a rename to .trash-*, and removal, so that no crash leaves one
// that looks whole. Never deleted are the newest usable ones, of which two at least, the newest
// certified ones, of which one at least, the two with the lowest recent loss, those that are pinned
// and those that the caller refers to.
// Orphans are directories without a manifest of an older generation, or of this generation at an
// earlier step. Checkpoints off the lineage and quarantined ones stay: somebody may want to look at
// them. Where not all can be looked at, as when the log cannot be read, nothing is deleted.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/checkpoint/file/checked.h"

namespace muster {

struct Retention {
  std::uint64_t keep = 3;               // newest usable checkpoints that stay; at least 2
  std::uint64_t generation = 0;         // of the caller
  std::uint64_t step = 0;               // of the checkpoint just committed
  std::uint64_t keep_certified = 2;     // newest certified ones that stay; at least 1
  std::set<std::string> referred = {};  // directory names that a load may still need
};

// Returns the directory names that went away. Leftovers of earlier passes are removed too. What
// cannot be removed keeps nothing else from being, and is the fault at the end.
Checked<std::vector<std::string>> collect_checkpoints(const std::string& root,
                                                      const Retention& retention);

}  // namespace muster
