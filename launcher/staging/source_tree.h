// What a snapshot would hold, without reading any file's content: entries in a fixed order, sizes
// and warnings. `plan` shows it; take_snapshot adds the hashes.
//
// Ignore files are honoured and `.git` is always left out; ignored directories are not entered.
// Links are kept; one that leads out of the tree is replaced by a copy of what it points to
// (warning), a dangling one stays as it is. Sockets, pipes and devices are left out (warning).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/staging/file_facts.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

// A Tree is one message: more entries than this would not fit into a frame.
inline constexpr std::size_t source_tree_limit_entries = 400'000;

struct SourceEntry {
  TreeEntry entry;   // `hash` is empty
  std::string from;  // absolute path of the content; differs from the entry's for a copied link
  FileFacts facts;
};

struct SourceTree {
  std::vector<SourceEntry> entries;  // sorted by path component; a directory precedes its content
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::vector<std::string> warnings;
};

Result<SourceTree> walk_source(const std::filesystem::path& source, bool honour_ignore_files);

}  // namespace muster
