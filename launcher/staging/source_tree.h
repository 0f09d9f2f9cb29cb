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
#include <variant>
#include <vector>

#include "launcher/staging/hash_cache.h"
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

// What becomes of a symbolic link of a source tree.
struct KeepLink {  // stays a link; an absolute target inside the tree is made relative
  std::string target;
};
struct CopyTarget {  // leads out of the tree: what it points to is copied in its place
  std::string real_path;
};
struct SkipLink {  // points to a directory that contains the tree
  std::string target;
};
using LinkFate = std::variant<KeepLink, CopyTarget, SkipLink>;

// `bases` are the real paths of the tree's root and of the copied directories around the link,
// innermost last; `link` is an absolute path below the last one. Dangling links are kept.
LinkFate fate_of_link(const std::vector<std::string>& bases, const std::string& link);

}  // namespace muster
