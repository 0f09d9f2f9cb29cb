// Committing a checkpoint: after every shard is durable, one rank writes the manifest.
//
// The first durable manifest is the commit point. It is written as temporary file, fsync, rename,
// fsync of the directory, then read back and checked; only then the hint LATEST follows. A
// generation that finds a newer one in the log, at first or just before the rename, commits
// nothing. Called by the committing rank only.
#pragma once

#include <string>

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

}  // namespace muster
