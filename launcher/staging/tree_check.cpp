#include "launcher/staging/tree_check.h"

#include <string_view>
#include <unordered_map>

#include "launcher/staging/beneath.h"
#include "launcher/staging/content_hash.h"

namespace muster {

namespace {

using Kinds = std::unordered_map<std::string_view, TreeEntry::Kind>;

Error refused(const Tree& tree, const TreeEntry& entry, const std::string& why) {
  return Error{"the tree '" + tree.place + "' is refused: its entry '" + entry.path + "' " + why};
}

std::string entry_fault(const TreeEntry& entry) {
  if (const std::string reason = unsafe_path_reason(entry.path); !reason.empty()) {
    return "has a path that is not allowed: " + reason;
  }
  switch (entry.entry_kind) {
    case TreeEntry::Kind::file:
      if (!is_content_hash(entry.hash)) return "names no blob";
      if (entry.size_bytes < 0) return "has a negative size";
      break;
    case TreeEntry::Kind::link:
      if (entry.target.empty() || entry.target.find('\0') != std::string::npos) {
        return "is a link without a usable target";
      }
      break;
    case TreeEntry::Kind::directory:
      break;
  }
  return {};
}

// Whether every parent of `path` is a directory or not mentioned at all.
bool lies_in_directories(std::string_view path, const Kinds& kinds) {
  for (path = split_last_component(path).first; !path.empty();
       path = split_last_component(path).first) {
    const auto parent = kinds.find(path);
    if (parent != kinds.end() && parent->second != TreeEntry::Kind::directory) return false;
  }
  return true;
}

}  // namespace

Status check_tree(const Tree& tree) {
  if (const std::string reason = unsafe_path_reason(tree.place); !reason.empty()) {
    return Error{"the place '" + tree.place + "' of a tree is not allowed: " + reason};
  }
  Kinds kinds;
  for (const TreeEntry& entry : tree.entries) {
    if (const std::string fault = entry_fault(entry); !fault.empty()) {
      return refused(tree, entry, fault);
    }
    if (!kinds.emplace(entry.path, entry.entry_kind).second) {
      return refused(tree, entry, "is given twice");
    }
  }
  for (const TreeEntry& entry : tree.entries) {
    if (!lies_in_directories(entry.path, kinds)) {
      return refused(tree, entry, "is below a link or a file");
    }
  }
  return Done{};
}

std::string tree_digest(const Tree& tree) {
  ContentHash digest;
  const auto add = [&digest](std::string_view field) {
    digest.add(std::to_string(field.size()) + ":");
    digest.add(field);
  };
  add(tree.writable ? "writable" : "read-only");
  for (const TreeEntry& entry : tree.entries) {
    add(std::to_string(static_cast<int>(entry.entry_kind)));
    add(entry.path);
    add(std::to_string(entry.mode));
    add(entry.hash);
    add(entry.target);
  }
  return digest.finish();
}

}  // namespace muster
