// A directory or a file of the submitter, as a Tree whose contents lie in a BlobStore. Runs where
// the job is submitted; the source is only read. The same content gives the same Tree on every
// machine.
//
// A file that is unchanged since the last snapshot of the same source (size, times, inode) is not
// read again: `<blobs>/cache/` remembers its hash.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/staging/blob_store.h"
#include "launcher/staging/source_tree.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

struct SnapshotRequest {
  std::filesystem::path source;  // directory, or one file: it becomes the only entry, by its name
  std::string place;             // `code`, `inputs/<name>`
  bool writable = true;
  bool honour_ignore_files = true;  // .amlignore, else .gitignore
  // A larger tree gets a warning: it is copied to every node.
  std::int64_t warn_above_bytes = std::int64_t{1} << 30;
};

struct Snapshot {
  Tree tree;
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::int64_t files_read = 0;  // the rest came from the cache
  std::vector<std::string> warnings;
};

Result<Snapshot> take_snapshot(const SnapshotRequest& request, const BlobStore& store);

}  // namespace muster
