// A directory tree as data: what staging sends to a node and what comes back as outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// One entry of a tree to be placed on a node. Paths are relative, never contain `..`.
struct TreeEntry {
  enum class Kind { directory, file, link };
  Kind entry_kind = Kind::file;
  std::string path;
  int mode = 0644;
  std::int64_t size_bytes = 0;
  std::string hash;    // file: hex content hash, names the blob
  std::string target;  // link

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("entry_kind", self.entry_kind);
    visit("path", self.path);
    visit("mode", self.mode);
    visit("size_bytes", self.size_bytes);
    visit("hash", self.hash);
    visit("target", self.target);
  }
};

// A tree and where it goes below the job's directory on the node: `code`, `inputs/<name>`.
struct Tree {
  std::string place;
  std::vector<TreeEntry> entries;
  bool writable = true;  // code is a fresh writable copy per attempt, inputs are read-only

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("place", self.place);
    visit("entries", self.entries);
    visit("writable", self.writable);
  }
};

}  // namespace muster
