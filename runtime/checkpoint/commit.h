// Committing a checkpoint: after every shard is durable, one rank writes the manifest.
//
// The first durable manifest is the commit point. It is written as temporary file, fsync, rename,
// fsync of the directory, then read back and checked; only then the hint LATEST follows. A
// generation that finds a newer one in the log, at first or just before the rename, commits
// nothing. Called by the committing rank only.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/manifest.h"

namespace muster {

// Creates root/s<step>-g<gen> durably; returns its path. All ranks may call it, in any order.
Checked<std::string> prepare_checkpoint_directory(const std::string& root, std::uint64_t step,
                                                  std::uint64_t generation);

// Commits `manifest` into its directory below `root`, whose shards are all in place. Returns what
// went wrong after the commit, with the hint; empty: nothing.
Checked<std::string> commit_checkpoint(const std::string& root, const Manifest& manifest);

// Frees the space of a checkpoint that was given up before its commit. One with a manifest stays:
// the commit may have happened. Called when no rank writes there any more.
void discard_uncommitted(const std::string& path);

// Names of the shards of `manifest` that are missing in `path` or have another size.
std::vector<std::string> missing_shards(const std::string& path, const Manifest& manifest);

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
