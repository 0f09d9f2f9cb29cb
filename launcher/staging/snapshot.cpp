#include "launcher/staging/snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>

#include "launcher/os/fd.h"
#include "launcher/staging/hash_cache.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

// A file written to this shortly before it was read may change again without its times showing it:
// they are as coarse as the file system makes them. Its hash is not remembered.
constexpr std::chrono::nanoseconds settling_time = std::chrono::seconds{2};

std::int64_t wall_clock_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Hashing {
  const BlobStore& store;
  HashCache before;
  HashCache after{};
  std::int64_t settled_before_ns = wall_clock_ns() - settling_time.count();

  // Fills in the entry's hash. False: the file is gone.
  Result<bool> hash(SourceEntry& source, Snapshot& snapshot);
  Result<bool> read(SourceEntry& source, Snapshot& snapshot);
};

Result<bool> Hashing::hash(SourceEntry& source, Snapshot& snapshot) {
  const std::string* known = before.find(source.from, source.facts);
  if (!known || !store.contains(*known, source.facts.size_bytes)) return read(source, snapshot);
  source.entry.hash = *known;
  after.remember(source.from, source.facts, *known);
  return true;
}

Result<bool> Hashing::read(SourceEntry& source, Snapshot& snapshot) {
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const Fd file(::open(source.from.c_str(), flags));
  if (!file) {
    if (errno != ENOENT) return stage_error("read", source.from, errno);
    snapshot.warnings.push_back("'" + source.from + "' vanished meanwhile and is skipped");
    return false;
  }
  struct stat first {};
  struct stat last {};
  if (::fstat(file.get(), &first) != 0) return stage_error("read", source.from, errno);
  auto blob = store.put_open_file(file, source.from);
  if (!blob) return blob.error();
  if (::fstat(file.get(), &last) != 0) return stage_error("read", source.from, errno);

  ++snapshot.files_read;
  source.entry.hash = blob->hash;
  source.entry.size_bytes = blob->size_bytes;
  const FileFacts facts = facts_of(last);
  if (facts != facts_of(first)) {
    snapshot.warnings.push_back("'" + source.from +
                                "' was written to while it was read: the job gets what was read");
  } else if (facts.modified_ns < settled_before_ns && facts.changed_ns < settled_before_ns) {
    after.remember(source.from, facts, blob->hash);
  }
  return true;
}

// Named by the source, so that each keeps exactly the entries of its newest snapshot.
fs::path cache_file(const BlobStore& store, const fs::path& source) {
  std::error_code ignored;
  const std::string name = fs::canonical(source, ignored).string();
  return store.root() / "cache" / content_hash_of(name);
}

}  // namespace

Result<Snapshot> take_snapshot(const SnapshotRequest& request, const BlobStore& store) {
  auto walked = walk_source(request.source, request.honour_ignore_files);
  if (!walked) return walked.error();

  Snapshot snapshot;
  snapshot.tree.place = request.place;
  snapshot.tree.writable = request.writable;
  snapshot.tree.entries.reserve(walked->entries.size());
  snapshot.warnings = std::move(walked->warnings);

  const fs::path remembered = cache_file(store, request.source);
  Hashing hashing{store, HashCache::load(remembered)};
  for (SourceEntry& source : walked->entries) {
    if (source.entry.entry_kind == TreeEntry::Kind::file) {
      const auto present = hashing.hash(source, snapshot);
      if (!present) return present.error();
      if (!*present) continue;
      ++snapshot.files;
      snapshot.bytes += source.entry.size_bytes;
    }
    snapshot.tree.entries.push_back(std::move(source.entry));
  }
  if (hashing.after != hashing.before) hashing.after.save(remembered);

  if (snapshot.bytes > request.warn_above_bytes) {
    snapshot.warnings.push_back("'" + request.source.string() + "' holds " +
                                readable_bytes(snapshot.bytes) +
                                ", which are copied to every node of the job; a shared directory "
                                "(shared_root of the compute target) saves the copy");
  }
  return snapshot;
}

}  // namespace muster
