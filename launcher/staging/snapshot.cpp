#include "launcher/staging/snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/content_hash.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

// A file written to this shortly before it was read may change again without its times showing it:
// they are as coarse as the file system makes them. Its hash is not remembered.
constexpr std::chrono::nanoseconds settling_time = std::chrono::seconds{2};

// Hashes of files read earlier, so that a snapshot reads only what changed. One file per source
// directory below `<blobs>/cache/`, replaced after every snapshot; losing it costs time only, so an
// unreadable one counts as empty and a failed save is not an error.
//
// Format: "muster hash cache 1\n", then records ended by a zero byte, numbers decimal:
//   <hash> <size> <modified ns> <changed ns> <inode> <device> <path, to the zero byte>
struct HashedFile {
  FileFacts facts;
  std::string hash;
  bool operator==(const HashedFile&) const = default;
};
using HashCache = std::unordered_map<std::string, HashedFile>;  // by path

constexpr std::string_view first_line = "muster hash cache 1";

HashCache load_hashes(const fs::path& file) {
  HashCache cache;
  std::istringstream in(text_of_file(file));
  std::string path;
  if (!std::getline(in, path) || path != first_line) return cache;
  while (in.peek() != std::istringstream::traits_type::eof()) {
    HashedFile entry;
    FileFacts& facts = entry.facts;
    in >> entry.hash >> facts.size_bytes >> facts.modified_ns >> facts.changed_ns >> facts.inode >>
        facts.device;
    if (in.get() != ' ' || !std::getline(in, path, '\0') || in.eof()) return {};
    if (!is_content_hash(entry.hash)) return {};
    cache.insert_or_assign(path, std::move(entry));
  }
  return cache;
}

void save_hashes(const HashCache& cache, const fs::path& file) {
  std::ostringstream text;
  text << first_line << '\n';
  for (const auto& [path, entry] : cache) {
    const FileFacts& facts = entry.facts;
    text << entry.hash << ' ' << facts.size_bytes << ' ' << facts.modified_ns << ' '
         << facts.changed_ns << ' ' << facts.inode << ' ' << facts.device << ' ' << path << '\0';
  }
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  replace_file(file, text.str(), 0600, Durable::in_cache);  // without it the next one hashes again
}

struct Hashing {
  const BlobStore& store;
  HashCache before;
  HashCache after{};
  std::int64_t settled_before_ns =
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch() - settling_time)
          .count();

  // Fills in the entry's hash. False: the file is gone.
  Result<bool> hash(SourceEntry& source, Snapshot& snapshot);
  Result<bool> read(SourceEntry& source, Snapshot& snapshot);
};

Result<bool> Hashing::hash(SourceEntry& source, Snapshot& snapshot) {
  const auto known = before.find(source.from);
  const bool is_same = known != before.end() && known->second.facts == source.facts &&
                       store.contains(known->second.hash, source.facts.size_bytes);
  if (!is_same) return read(source, snapshot);
  source.entry.hash = known->second.hash;
  after.insert(*known);
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
    after.insert_or_assign(source.from, HashedFile{facts, blob->hash});
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
  Hashing hashing{store, load_hashes(remembered)};
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
  if (hashing.after != hashing.before) save_hashes(hashing.after, remembered);

  if (snapshot.bytes > request.warn_above_bytes) {
    snapshot.warnings.push_back("'" + request.source.string() + "' holds " +
                                readable_bytes(snapshot.bytes) +
                                ", which are copied to every node of the job; a shared directory "
                                "(shared_root of the compute target) saves the copy");
  }
  return snapshot;
}

}  // namespace muster
