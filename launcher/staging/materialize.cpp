#include "launcher/staging/materialize.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <unordered_map>

#include "launcher/os/read_file.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/content_hash.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr int executable_bits = 0111;

// ---- one file

// Copied between two signs of life: seconds even on a disk that is very slow.
constexpr std::size_t copy_step_bytes = std::size_t{64} << 20;

// `from`'s bytes between two offsets to the same place in `to`; false leaves errno.
bool copy_range(const Fd& from, Fd& to, off_t at, off_t end, const std::function<void()>& alive) {
  std::string piece;
  while (at < end) {
    alive();
    off_t target = at;
    const std::size_t step = std::min(static_cast<std::size_t>(end - at), copy_step_bytes);
    const ssize_t copied = ::copy_file_range(from.get(), &at, to.get(), &target, step, 0);
    if (copied > 0 || (copied < 0 && errno == EINTR)) continue;
    const bool is_unsupported =
        copied < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP ||
                       errno == ENOSYS || errno == EPERM);
    if (!is_unsupported) return copied == 0;
    if (!read_at(from.get(), at, std::min(step, std::size_t{1} << 20), piece)) return false;
    if (piece.empty()) return true;
    if (::lseek(to.get(), at, SEEK_SET) < 0 || !write_all(to.get(), piece)) return false;
    at += static_cast<off_t>(piece.size());
  }
  return true;
}

// A private copy of a blob; in a read-only tree it carries the untouched mark.
bool place_copy(const fs::path& blob, const fs::path& file, const Tree& tree,
                const TreeEntry& entry, const Placing& placing) {
  const Fd from(::open(blob.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!from) return false;
  Fd to(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!to || !copy_content(from, to, [&] { placing(entry.path); })) return false;
  const int mode =
      tree.writable ? (entry.mode & 0777) | 0600 : 0444 | (entry.mode & executable_bits);
  if (::fchmod(to.get(), static_cast<mode_t>(mode)) != 0) return false;
  return tree.writable || mark_untouched(to);
}

bool place_file(const fs::path& blob, const fs::path& file, const Tree& tree,
                const TreeEntry& entry, const Placing& placing) {
  placing(entry.path);
  const bool may_link = !tree.writable && (entry.mode & executable_bits) == 0;
  if (may_link && ::link(blob.c_str(), file.c_str()) == 0) return true;
  return place_copy(blob, file, tree, entry, placing);
}

// ---- the whole tree

Status build_directories(const Tree& tree, const fs::path& root) {
  std::error_code code;
  fs::create_directories(root, code);
  if (code) return stage_error("create", root, code.value());
  for (const TreeEntry& entry : tree.entries) {
    const bool is_directory = entry.entry_kind == TreeEntry::Kind::directory;
    const fs::path directory = is_directory ? root / entry.path : (root / entry.path).parent_path();
    fs::create_directories(directory, code);
    if (code) return stage_error("create", directory, code.value());
    if (!is_directory) continue;
    const int mode = tree.writable ? (entry.mode & 0777) | 0700 : 0755;
    if (::chmod(directory.c_str(), static_cast<mode_t>(mode)) != 0) {
      return stage_error("create", directory, errno);
    }
  }
  return Done{};
}

// The failed writing of an entry, in words of where the tree was to stand.
Error entry_error(const Tree& tree, const TreeEntry& entry, const fs::path& destination,
                  int error_number) {
  Error error = stage_error("write", destination / entry.path, error_number);
  if (error_number != ENOSPC) return error;
  std::int64_t bytes = 0;
  for (const TreeEntry& each : tree.entries) bytes += each.size_bytes;
  error.message += "; the tree '" + tree.place + "' takes " + readable_bytes(bytes) + " in all";
  return error;
}

// Builds at `root` what will stand at `destination`. Links come last, so that no path is ever
// looked up through one.
Status build(const Tree& tree, const BlobStore& store, const fs::path& root,
             const fs::path& destination, const Placing& placing) {
  if (Status made = build_directories(tree, root); !made) return made;
  for (const TreeEntry& entry : tree.entries) {
    if (entry.entry_kind != TreeEntry::Kind::file) continue;
    if (!store.contains(entry.hash, entry.size_bytes)) {
      return Error{"'" + entry.path + "' of the tree '" + tree.place +
                   "' cannot be placed: its blob " + entry.hash + " is not in '" +
                   store.root().string() + "'"};
    }
    if (!place_file(store.path_of(entry.hash), root / entry.path, tree, entry, placing)) {
      return entry_error(tree, entry, destination, errno);
    }
  }
  for (const TreeEntry& entry : tree.entries) {
    if (entry.entry_kind != TreeEntry::Kind::link) continue;
    if (::symlink(entry.target.c_str(), (root / entry.path).c_str()) != 0) {
      return entry_error(tree, entry, destination, errno);
    }
  }
  return Done{};
}

// A read-only tree is as it was built: every file has its size and shows no write.
bool is_whole(const Tree& tree, const fs::path& root) {
  for (const TreeEntry& entry : tree.entries) {
    struct stat facts {};
    if (::lstat((root / entry.path).c_str(), &facts) != 0) return false;
    if (entry.entry_kind != TreeEntry::Kind::file) continue;
    if (facts.st_size != entry.size_bytes || !is_untouched(facts)) return false;
  }
  return true;
}

// ---- putting it in place

// Notes about the trees of a job directory and the trees being built, outside the job's own names.
struct Workspace {
  fs::path destination;
  fs::path fresh;
  fs::path note;  // digest of the read-only tree that stands at `destination`

  Workspace(const fs::path& job_directory, const std::string& place)
      : destination(job_directory / place) {
    const std::string name = content_hash_of(place);
    fresh = job_directory / ".staged" / (name + ".new");
    note = job_directory / ".staged" / name;
  }
};

std::string read_note(const fs::path& note) {
  const Fd file(::open(note.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::string text;
  if (!file || !read_at(file.get(), 0, 128, text)) return {};
  return text;
}

Status put_in_place(const Workspace& at) {
  std::error_code code;
  fs::create_directories(at.destination.parent_path(), code);
  if (code) return stage_error("create", at.destination.parent_path(), code.value());
  if (::rename(at.fresh.c_str(), at.destination.c_str()) == 0) return Done{};
  if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) {
    return stage_error("put the tree at", at.destination, errno);
  }
  if (::renameat2(AT_FDCWD, at.fresh.c_str(), AT_FDCWD, at.destination.c_str(), RENAME_EXCHANGE) ==
      0) {
    return remove_tree(at.fresh);
  }
  // A file system without the exchange: the tree is absent for a moment, and built again after a
  // crash in it.
  if (Status removed = remove_tree(at.destination); !removed) return removed;
  if (::rename(at.fresh.c_str(), at.destination.c_str()) == 0) return Done{};
  return stage_error("put the tree at", at.destination, errno);
}

Status build_and_place(const Tree& tree, const BlobStore& store, const Workspace& at,
                       const std::string& digest, const Placing& placing) {
  if (Status built = build(tree, store, at.fresh, at.destination, placing); !built) return built;
  ::unlink(at.note.c_str());
  if (Status placed = put_in_place(at); !placed) return placed;
  const bool is_noted = tree.writable || replace_file(at.note, digest, 0600, Durable::in_cache);
  return is_noted ? Status(Done{}) : stage_error("write", at.note, errno);
}

void open_up(const fs::path& directory) {
  std::error_code ignored;
  fs::permissions(directory, fs::perms::owner_all, fs::perm_options::add, ignored);
  for (fs::directory_iterator it(directory, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    std::error_code unknown;
    if (fs::is_directory(it->symlink_status(unknown))) open_up(it->path());
  }
}

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

std::vector<std::string> missing_blobs(const std::vector<Tree>& trees, const BlobStore& store) {
  std::set<std::string> missing;
  for (const Tree& tree : trees) {
    for (const TreeEntry& entry : tree.entries) {
      if (entry.entry_kind != TreeEntry::Kind::file || missing.contains(entry.hash)) continue;
      if (!store.contains(entry.hash, entry.size_bytes)) missing.insert(entry.hash);
    }
  }
  return {missing.begin(), missing.end()};
}

bool copy_content(const Fd& from, Fd& to, const std::function<void()>& alive) {
  if (::ioctl(to.get(), FICLONE, from.get()) == 0) return true;
  struct stat facts {};
  if (::fstat(from.get(), &facts) != 0) return false;
  for (off_t at = 0; at < facts.st_size;) {
    off_t data = ::lseek(from.get(), at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // a hole to the end
    if (data < 0) data = at;
    off_t end = ::lseek(from.get(), data, SEEK_HOLE);
    if (end < 0) end = facts.st_size;
    if (!copy_range(from, to, data, end, alive)) return false;
    at = end;
  }
  return ::ftruncate(to.get(), facts.st_size) == 0;
}

Status materialize(const Tree& tree, const BlobStore& store, const fs::path& job_directory,
                   const Placing& placing) {
  if (Status acceptable = check_tree(tree); !acceptable) return acceptable;
  const Workspace at(job_directory, tree.place);
  const std::string digest = tree_digest(tree);
  const bool stands = !tree.writable && read_note(at.note) == digest;
  if (stands && is_whole(tree, at.destination)) return Done{};

  if (Status removed = remove_tree(at.fresh); !removed) return removed;
  Status done = build_and_place(tree, store, at, digest, placing);
  if (done) return done;
  const Status removed = remove_tree(at.fresh);
  return removed ? done : Error{done.error().message + "; and " + removed.error().message};
}

Status remove_tree(const fs::path& directory) {
  std::error_code code;
  fs::remove_all(directory, code);
  if (code == std::errc::permission_denied) {
    open_up(directory);
    fs::remove_all(directory, code);
  }
  if (code) return stage_error("remove", directory, code.value());
  return Done{};
}

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
