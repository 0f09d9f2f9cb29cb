// The node's side of staging: a Tree and the blobs it names become a directory.
//
// A tree arrives whole or not at all: it is built beside its place and renamed into it. Trees come
// from another machine, so nothing in one is trusted: a path that is absolute, contains `..` or
// leads through a link or file of the same tree is refused, and no link is ever followed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "launcher/staging/blob_store.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

// Hashes that the trees name and the store does not hold, each once, sorted.
std::vector<std::string> missing_blobs(const std::vector<Tree>& trees, const BlobStore& store);

// Hears which file is being placed, again and again while a large one is copied.
using Placing = std::function<void(const std::string& path)>;

// Builds `tree` at `job_directory / tree.place`.
//   writable:  always a fresh copy; what stood there goes away (no rank may be running in it)
//   read-only: files are hard links to the blobs, mode 0444 (copies where linking is impossible or
//              a file is executable); a tree of the same content that stands there is kept
// Blobs must be present (missing_blobs). On failure the old tree stays and no part of the new one.
Status materialize(
    const Tree& tree, const BlobStore& store, const std::filesystem::path& job_directory,
    const Placing& placing = [](const std::string&) {});

// The whole of `from` into `to`, sharing the blocks where the file system can, and leaving holes
// where it knows of them; false leaves errno. Calls `alive` every few seconds.
bool copy_content(const Fd& from, Fd& to, const std::function<void()>& alive);

// Removes a directory and all below it, never following a link. Directories that their owner may
// not write to are opened up first: ranks leave such things. An absent tree is removed already.
Status remove_tree(const std::filesystem::path& directory);

// Whether a tree from another machine may be built, before anything is written: refuses absolute
// paths, `..`, names given twice, entries below a link or a file, bad hashes.
Status check_tree(const Tree& tree);

// Two trees with the same digest become the same directory.
std::string tree_digest(const Tree& tree);

}  // namespace muster
