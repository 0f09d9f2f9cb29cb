// Builders of trees for tests, and a store in a folder.
#pragma once

#include <fcntl.h>

#include <string>
#include <utility>
#include <vector>

#include "launcher/staging/blob_store.h"
#include "launcher/staging/snapshot.h"
#include "tests/catch.h"
#include "tests/launcher/staging/folder.h"

namespace muster {

inline BlobStore store_in(const Folder& folder, const std::string& name = "blobs") {
  auto store = BlobStore::open(folder / name);
  if (!store) throw std::runtime_error(store.error().message);
  return *store;
}

// For TEST_CASE_METHOD: a folder with a store in it.
struct WithStore {
  Folder folder;
  const BlobStore store = store_in(folder);
};

inline Result<StoredBlob> put_file(const BlobStore& store, const std::filesystem::path& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return store.put_open_file(file, path);
}

inline Snapshot snapshot_of(const std::filesystem::path& source, const BlobStore& store,
                            bool writable = true) {
  SnapshotRequest request;
  request.source = source;
  request.place = "code";
  request.writable = writable;
  auto taken = take_snapshot(request, store);
  if (!taken) throw std::runtime_error(taken.error().message);
  return std::move(*taken);
}

inline std::vector<std::string> paths_of(const Tree& tree) {
  std::vector<std::string> paths;
  for (const TreeEntry& entry : tree.entries) paths.push_back(entry.path);
  return paths;
}

inline const TreeEntry& entry_of(const Tree& tree, const std::string& path) {
  for (const TreeEntry& entry : tree.entries) {
    if (entry.path == path) return entry;
  }
  throw std::runtime_error("no entry " + path);
}

inline TreeEntry a_file(const std::string& path, const StoredBlob& blob, int mode = 0644) {
  return {TreeEntry::Kind::file, path, mode, blob.size_bytes, blob.hash, {}};
}
inline TreeEntry a_directory(const std::string& path, int mode = 0755) {
  return {TreeEntry::Kind::directory, path, mode, 0, {}, {}};
}
inline TreeEntry a_link(const std::string& path, const std::string& target) {
  return {TreeEntry::Kind::link, path, 0777, 0, {}, target};
}

}  // namespace muster
