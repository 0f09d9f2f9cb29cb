#include "launcher/data/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <set>
#include <thread>
#include <vector>

#include "launcher/data/rclone.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/content_hash.h"
#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<const DataFile*>;

constexpr std::chrono::milliseconds lock_look{200};
constexpr std::int64_t ns_per_second = 1'000'000'000;
// What is fetched before it is verified: a killed staging fetches at most so much twice, and each
// part costs a start of rclone.
constexpr std::int64_t part_bytes = std::int64_t{4} << 30;
constexpr std::size_t part_files = 5000;
constexpr std::size_t read_bytes = std::size_t{1} << 20;
constexpr std::int64_t told_each = std::int64_t{1} << 30;

Fd lock_file(const fs::path& file) {
  return Fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

// Nothing: another has it, or it cannot be.
std::optional<Fd> locked(const fs::path& file, int how) {
  Fd lock = lock_file(file);
  if (!lock || ::flock(lock.get(), how | LOCK_NB) != 0) return std::nullopt;
  return lock;
}

// False leaves errno.
bool wait_for(const Fd& lock, const std::string& why, const TellData& tell) {
  for (int looks = 0; ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0; ++looks) {
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    if (tell) tell("data: " + why + std::string(1 + looks % 3, '.'));
    std::this_thread::sleep_for(lock_look);
  }
  return true;
}

// Of all directories of a tree: 0555 stops changes and removal.
void set_modes(const fs::path& tree, mode_t mode) {
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(tree, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (entry->is_directory() && !entry->is_symlink()) ::chmod(entry->path().c_str(), mode);
  }
  ::chmod(tree.c_str(), mode);
}

void remove_all_of(const fs::path& directory) {
  set_modes(directory, 0700);
  std::error_code ignored;
  fs::remove_all(directory, ignored);
}

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code failure;
  for (fs::directory_iterator entry(directory, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    found.push_back(entry->path());
  }
  return found;
}

// Bytes of all objects, without those that no tree has where these are removed, unless they are
// `wanted`.
std::int64_t bytes_of_objects(const fs::path& root, bool removes,
                              const std::set<std::string>& wanted) {
  std::int64_t bytes = 0;
  for (const fs::path& folder : entries_of(root / "objects")) {
    for (const fs::path& object : entries_of(folder)) {
      struct stat facts {};
      if (::lstat(object.c_str(), &facts) != 0) continue;
      const bool is_useless =
          removes && facts.st_nlink == 1 && !wanted.contains(object.filename().string());
      if (is_useless && ::unlink(object.c_str()) == 0) continue;
      bytes += facts.st_size;
    }
  }
  return bytes;
}

// What its holder will still fetch stands in the lock of an incoming tree. Always as many digits:
// another may read meanwhile.
void reserve(const Fd& lock, std::int64_t bytes) {
  std::string text = std::to_string(std::max<std::int64_t>(bytes, 0));
  text.insert(0, 20 - text.size(), '0');
  const bool is_written = ::pwrite(lock.get(), text.data(), text.size(), 0) > 0;
  static_cast<void>(is_written);  // on a full disk nobody else finds room either
}

// By all others. A lock that is free is of a process that is gone.
std::int64_t reserved_by_others(const fs::path& root, const Fd& own) {
  std::int64_t bytes = 0;
  struct stat ours {
  }, theirs{};
  if (::fstat(own.get(), &ours) != 0) return 0;
  for (const fs::path& entry : entries_of(root / "incoming")) {
    if (entry.extension() != ".lock" || ::stat(entry.c_str(), &theirs) != 0) continue;
    if (theirs.st_ino == ours.st_ino || locked(entry, LOCK_EX)) continue;
    bytes += std::max<std::int64_t>(0, read_integer(trimmed(text_of_file(entry))).value_or(0));
  }
  return bytes;
}

// For a tree that makes way for another.
std::string unused_name(const std::string& manifest) {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return manifest + "." + std::to_string(::getpid()) + "." + std::to_string(now);
}

// A directory that moves is written to.
bool move_tree(const fs::path& from, const fs::path& to) {
  ::chmod(from.c_str(), 0755);
  return ::rename(from.c_str(), to.c_str()) == 0;
}

// Of trees that nobody holds, the one that was used longest ago.
bool remove_oldest_tree(const DataCache& cache, const fs::path& root) {
  std::vector<std::pair<std::int64_t, std::string>> trees;
  for (const fs::path& tree : entries_of(root / "trees")) {
    struct stat facts {};
    const std::string name = tree.filename().string();
    const bool is_known = ::lstat((root / "locks" / name).c_str(), &facts) == 0;
    trees.emplace_back(is_known ? time_ns(facts) : 0, name);
  }
  std::ranges::sort(trees);
  for (const auto& [used, name] : trees) {
    const std::string held = name.substr(0, name.find('.'));  // of one that was replaced, too
    auto lock = locked(root / "locks" / held, LOCK_EX);
    if (!lock) continue;
    std::string going = name;
    if (held == name) {  // out of the way of who wants it again: its removal may take minutes
      going = unused_name(name);
      if (!move_tree(cache.tree(name), cache.tree(going))) continue;
      ::unlink((root / "locks" / name).c_str());
      lock.reset();
    }
    remove_all_of(cache.tree(going));
    if (::access(cache.tree(going).c_str(), F_OK) != 0) return true;
  }
  return false;
}

// Of processes that are gone.
void remove_left_incoming(const fs::path& root) {
  for (const fs::path& entry : entries_of(root / "incoming")) {
    if (entry.extension() == ".lock") continue;
    if (!locked(entry.string() + ".lock", LOCK_EX)) continue;
    remove_all_of(entry);
  }
}

Status link_into(const fs::path& object, const fs::path& path) {
  if (::link(object.c_str(), path.c_str()) == 0) return Done{};
  std::error_code failure;
  if (errno == ENOENT) fs::create_directories(path.parent_path(), failure);
  if (::link(object.c_str(), path.c_str()) == 0) return Done{};
  return system_error("link " + path.string());
}

// "1.2 GB".
std::string size_text(std::int64_t bytes) {
  constexpr std::array<const char*, 6> units{"B", "kB", "MB", "GB", "TB", "PB"};
  double number = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (number >= 1000 && unit + 1 < units.size()) number /= 1000, ++unit;
  return unit == 0 ? std::to_string(bytes) + " B" : printed("%.1f %s", number, units[unit]);
}

template <class T>
T had(Result<T> result, const std::string& before = "") {
  if (!result) throw StagingFailure{before + result.error().message};
  return std::move(*result);
}

// The store refuses whoever asks with these credentials, from wherever.
bool is_refusal(std::string_view message) {
  constexpr std::array words{"AuthenticationFailed", "AuthorizationFailure",  "AccessDenied",
                             "InvalidAccessKeyId",   "SignatureDoesNotMatch", "401 Unauthorized",
                             "403 Forbidden"};
  return std::ranges::any_of(words, [&](const char* word) { return mentions(message, word); });
}

// Throws a StagingFailure where it cannot go on.
struct Staging {
  const StagedData& data;
  const DataManifest& manifest;
  const DataCache& cache;
  const std::string& node;
  const TellData& tell;
  std::int64_t all_bytes = 0;
  std::int64_t done_bytes = 0;
  std::int64_t told_bytes = 0;

  // The bytes that were fetched.
  std::int64_t run() {
    const Fd lock = had(cache.fetching(data.manifest, tell));
    if (cache.is_whole(data.manifest, manifest)) return 0;
    const fs::path incoming = cache.incoming(data.manifest);
    std::error_code ignored;
    Status built = Done{};
    // Objects that no tree has may be removed, to make room for others, before this one has them.
    for (int tries = 0; tries < 3; ++tries) {
      fs::remove_all(incoming, ignored);
      fetch(missing_files(), incoming / "files", lock);
      built = cache.build(data.manifest, manifest);
      if (built) break;
    }
    fs::remove_all(incoming, ignored);
    had(std::move(built));
    return done_bytes;
  }

  // One of those that are the same object is enough.
  Files missing_files() const {
    Files missing;
    std::set<std::string> names;
    for (const DataFile& file : manifest.files) {
      const std::string name = object_name(manifest, file);
      if (DataCache::is_as_listed(cache.object(name), file)) continue;
      if (names.insert(name).second) missing.push_back(&file);
    }
    return missing;
  }

  void fetch(const Files& missing, const fs::path& to, const Fd& lock) {
    if (missing.empty()) return;
    std::int64_t needed = 0;
    for (const DataFile* file : missing) needed += file->bytes;
    all_bytes = done_bytes + needed;
    if (auto room = cache.make_room(needed, data.size, lock, &manifest, tell); !room) {
      throw StagingFailure{"node " + node + ": " + room.error().message, false, true};
    }
    Files part;
    std::int64_t bytes = 0;
    for (const DataFile* file : missing) {
      part.push_back(file);
      bytes += file->bytes;
      const bool is_full = bytes >= part_bytes || part.size() >= part_files;
      if (!is_full && file != missing.back()) continue;
      fetch_part(part, to, lock, needed);
      needed -= bytes;
      reserve(lock, needed);
      part.clear();
      bytes = 0;
    }
  }

  // `left`: bytes, with those of later parts.
  void fetch_part(const Files& part, const fs::path& to, const Fd& lock, std::int64_t left) {
    RcloneRequest request{{"copy", data.source, to.string(), "--transfers=16", "--checkers=16"},
                          data.config};
    request.on_progress = [&](std::int64_t bytes, double per_s) {
      reserve(lock, left - bytes);
      tell_of(bytes, per_s);
    };
    for (const DataFile* file : part) request.files += rclone_name(file->path) + "\n";
    if (const auto failure = run_rclone(request)) {
      const std::string here = "node " + node;
      throw StagingFailure{
          failure->text(here + " cannot fetch the data of " + data_name(data), here),
          is_refusal(failure->message)};
    }
    for (const DataFile* file : part) {
      verify(*file, to / file->path);
      had(cache.keep(to / file->path, object_name(manifest, *file), *file));
      done_bytes += file->bytes;
      tell_of(0, 0);
    }
  }

  // That it is what was listed.
  void verify(const DataFile& file, const fs::path& path) const {
    const auto changed = [&](const std::string& how) {
      const bool is_input = !data.how.starts_with("output");
      return StagingFailure{
          "the data of " + data_name(data) + " changed " +
              (is_input ? "since the job was submitted: " : "while they were copied: ") +
              quoted_text(file.path) + " " + how +
              (is_input ? "; submit the job again to read what is there now" : ""),
          is_input, false, true};
    };
    struct stat facts {};
    if (::lstat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
      throw changed("is no longer there");
    }
    if (facts.st_size != file.bytes) {
      throw changed("has " + std::to_string(facts.st_size) + " bytes instead of " +
                    std::to_string(file.bytes));
    }
    if (file.md5.empty()) {
      if (time_ns(facts) != file.modified_ns) throw changed("has another time");
    } else if (had(md5_of_file(path, tell)) != file.md5) {
      throw changed("has another content (MD5)");
    }
  }

  // Said where something moved: what says nothing for minutes is stopped.
  void tell_of(std::int64_t in_part, double per_s) {
    const std::int64_t now = done_bytes + in_part;
    if (now <= told_bytes && told_bytes > 0) return;
    told_bytes = now;
    std::string text = "data " + size_text(now) + " of " + size_text(all_bytes);
    if (per_s > 0) {
      const double left_s = static_cast<double>(all_bytes - now) / per_s;
      text += ", " + size_text(static_cast<std::int64_t>(per_s)) + "/s, " +
              printed("%.0f s", std::ceil(left_s));
    }
    tell(text);
  }
};

}  // namespace

std::int64_t time_ns(const struct stat& facts) {
  return facts.st_mtim.tv_sec * ns_per_second + facts.st_mtim.tv_nsec;
}

std::optional<std::int64_t> share_of(std::string_view text, std::int64_t all_bytes) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = read_integer(text.substr(0, end));
  const std::string_view unit = text.substr(end);
  if (!number || end > 12) return std::nullopt;
  if (unit == "%") return *number > 100 ? std::nullopt : std::optional(all_bytes / 100 * *number);
  const std::int64_t each = unit.ends_with("ib") ? 1024 : 1000;
  const std::string_view rest = each == 1024 ? "ib" : "b";
  std::int64_t factor = unit.empty() ? 1 : 0;
  if (unit.size() == rest.size() + 1 && unit.ends_with(rest)) {
    if (unit[0] == 'm') factor = each * each;
    if (unit[0] == 'g') factor = each * each * each;
    if (unit[0] == 't') factor = each * each * each * each;
  }
  const bool fits = factor > 0 && *number <= INT64_MAX / factor;
  return fits ? std::optional(*number * factor) : std::nullopt;
}

std::optional<std::int64_t> mount_cache_bytes(std::string_view text, std::int64_t free_bytes) {
  const std::size_t end = std::min(text.find_first_not_of("-0123456789"), text.size());
  const auto number = read_integer(text.substr(0, end));
  const std::string unit = folded(std::string(trimmed(text.substr(end))));
  constexpr std::array<std::string_view, 5> units{"", "kb", "mb", "gb", "tb"};
  std::int64_t factor = 1;
  for (const std::string_view one : units) {
    if (number && (unit == one || (one.empty() && unit == "b"))) {
      if (*number > INT64_MAX / factor || *number < -INT64_MAX / factor) return std::nullopt;
      const std::int64_t bytes = *number * factor;
      return bytes >= 0 ? bytes : std::max<std::int64_t>(free_bytes + bytes, 0);
    }
    factor *= 1024;
  }
  return std::nullopt;
}

Result<std::string> md5_of_file(const fs::path& path, const TellData& tell) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return system_error("read " + path.string());
  ContentHash hash(ContentHash::Kind::md5);
  std::string bytes;
  for (std::int64_t at = 0;; at += static_cast<std::int64_t>(bytes.size())) {
    if (!read_at(file.get(), at, read_bytes, bytes)) return system_error("read " + path.string());
    if (bytes.empty()) return hash.finish();
    hash.add(bytes);
    if (at % told_each == 0) tell("data: comparing " + quoted_text(path.filename().string()));
  }
}

Result<DataCache> DataCache::open(const fs::path& root) {
  for (const char* part : {"", "objects", "trees", "locks", "incoming"}) {
    const fs::path directory = *part == '\0' ? root : root / part;
    if (auto made = open_private_directory(directory.string()); !made) {
      return Error{"the cache of data: " + made.error().message};
    }
  }
  return DataCache(root);
}

fs::path DataCache::object(const std::string& name) const {
  return root_ / "objects" / name.substr(0, 2) / name;
}

std::optional<Fd> shared_lock(const fs::path& file) {
  auto lock = locked(file, LOCK_SH);
  struct stat ours {
  }, named{};
  // It may have been removed between the two calls: then another would lock another file.
  const bool is_there = lock && ::fstat(lock->get(), &ours) == 0 &&
                        ::stat(file.c_str(), &named) == 0 && ours.st_ino == named.st_ino;
  return is_there ? std::move(lock) : std::nullopt;
}

std::optional<Fd> DataCache::hold(const std::string& manifest) const {
  if (!is_content_hash(manifest)) return std::nullopt;
  auto lock = shared_lock(root_ / "locks" / manifest);
  if (lock) ::futimens(lock->get(), nullptr);
  return lock;
}

Result<Fd> DataCache::fetching(const std::string& manifest, const TellData& tell) const {
  const std::string file = incoming(manifest).string() + ".lock";
  Fd lock = lock_file(file);
  if (lock && wait_for(lock, "another job fetches the same", tell)) return lock;
  return system_error("lock " + file);
}

bool DataCache::is_as_listed(const fs::path& path, const DataFile& file) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
         facts.st_size == file.bytes && time_ns(facts) == file.modified_ns &&
         (facts.st_mode & 0222) == 0;
}

bool DataCache::is_whole(const std::string& manifest, const DataManifest& files) const {
  std::error_code failure;
  std::size_t count = 0;
  for (fs::recursive_directory_iterator entry(tree(manifest), failure), end;
       !failure && entry != end; entry.increment(failure)) {
    count += entry->is_symlink() || !entry->is_directory() ? 1 : 0;
  }
  return !failure && count == files.files.size() &&
         std::ranges::all_of(files.files, [&](const DataFile& file) {
           return is_as_listed(tree(manifest) / file.path, file);
         });
}

Status DataCache::keep(const fs::path& fetched, const std::string& name,
                       const DataFile& file) const {
  const fs::path path = object(name);
  const Fd bytes(::open(fetched.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const std::int64_t rest_ns = (file.modified_ns % ns_per_second + ns_per_second) % ns_per_second;
  const timespec modified{(file.modified_ns - rest_ns) / ns_per_second, rest_ns};
  const std::array times{modified, modified};
  const bool is_safe = bytes && ::fchmod(bytes.get(), 0444) == 0 &&
                       ::futimens(bytes.get(), times.data()) == 0 && ::fsync(bytes.get()) == 0;
  if (!is_safe) return system_error("keep " + fetched.string());
  std::error_code ignored;
  fs::create_directory(path.parent_path(), ignored);
  // A second name: what has one alone may be removed to make room.
  const fs::path made = path.string() + "." + std::to_string(::getpid());
  ::unlink(made.c_str());
  const bool is_kept =
      ::link(fetched.c_str(), made.c_str()) == 0 && ::rename(made.c_str(), path.c_str()) == 0;
  ::unlink(made.c_str());
  return is_kept ? Status(Done{}) : system_error("keep " + path.string());
}

Status DataCache::build(const std::string& manifest, const DataManifest& files) const {
  const fs::path made = incoming(manifest) / "tree";
  remove_all_of(made);
  std::error_code failure;
  fs::create_directories(made, failure);
  if (failure) return Error{"cannot make " + made.string() + ": " + failure.message()};
  for (const DataFile& file : files.files) {
    if (auto linked = link_into(object(object_name(files, file)), made / file.path); !linked) {
      return linked;
    }
  }
  set_modes(made, 0555);
  ::chmod(made.c_str(), 0755);
  // Another job may be reading what is there, and goes on: it is removed when nobody does.
  const fs::path place = tree(manifest), old = tree(unused_name(manifest));
  ::chmod(place.c_str(), 0755);
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0) {
    move_tree(made, old);
  } else if ((!move_tree(place, old) && errno != ENOENT) || !move_tree(made, place)) {
    return system_error("make " + place.string());
  }
  ::chmod(place.c_str(), 0555);
  return Done{};
}

fs::space_info disk_of(fs::path directory) {
  std::error_code failure;
  while (!fs::exists(directory, failure) && directory.has_relative_path()) {
    directory = directory.parent_path();
  }
  const fs::space_info disk = fs::space(directory, failure);
  return failure ? fs::space_info{} : disk;
}

DataCache::Room DataCache::room_at(const fs::path& root, const std::string& size,
                                   const std::string& share) {
  const fs::space_info disk = disk_of(root);
  const auto limit = share_of(size, static_cast<std::int64_t>(disk.capacity)).value_or(0);
  const auto free = static_cast<std::int64_t>(disk.available);
  return {share_of(share, limit).value_or(limit / 2), free, limit};
}

std::int64_t DataCache::held_bytes(const fs::path& root) {
  return bytes_of_objects(root, false, {});
}

Status DataCache::make_room(std::int64_t bytes, const std::string& size, const Fd& lock,
                            const DataManifest* files, const TellData& tell) const {
  const Fd one(::open((root_ / "locks").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!one || !wait_for(one, "another job makes room in the cache", tell)) {
    return system_error("lock " + root_.string());
  }
  std::error_code ignored;
  const auto limit = share_of(size, static_cast<std::int64_t>(fs::space(root_, ignored).capacity));
  const auto free = [&] { return static_cast<std::int64_t>(fs::space(root_, ignored).available); };
  if (!limit) return Error{"data.size: '" + size + "' is not a size"};
  remove_left_incoming(root_);
  std::set<std::string> wanted;
  if (files != nullptr) {
    for (const DataFile& file : files->files) wanted.insert(object_name(*files, file));
  }
  const std::int64_t others = reserved_by_others(root_, lock);
  std::int64_t held = others + bytes_of_objects(root_, false, wanted);
  const auto fits = [&] {
    const bool does = held + bytes <= *limit && others + bytes <= free();
    if (does && lock) reserve(lock, bytes);
    return does;
  };
  if (fits()) return Done{};
  const bool can_fit = others + bytes <= *limit;  // else nothing is removed for it
  if (can_fit) held = others + bytes_of_objects(root_, true, wanted);
  for (int removed = 1; can_fit && !fits() && remove_oldest_tree(*this, root_); ++removed) {
    if (tell) tell("data: " + std::to_string(removed) + " trees of the cache removed");
    held = others + bytes_of_objects(root_, true, wanted);
  }
  if (fits()) return Done{};
  return Error{"the data need " + size_text(bytes) + " in " + root_.string() + ", which may take " +
               size_text(*limit) + " (data.size: " + size + ") and holds " + size_text(held) +
               " in use; " + size_text(free()) +
               " are free; set data.cache or data.size in the cluster file"};
}

namespace {

StagedTree to_stream(const StagedData& data, const DataCache::Room& room,
                     const std::string& first_file) {
  StagedTree tree;
  tree.first_file = first_file;
  tree.stream_cache = data.mount_cache.empty() ? std::min(room.share, room.free / 2)
                                               : mount_cache_bytes(data.mount_cache, room.free);
  if (!tree.stream_cache) {
    tree.failure = {"DATASET_MOUNT_CACHE_SIZE: expected bytes or a size such as '500 MB', got " +
                        quoted_text(data.mount_cache),
                    true, false};
  }
  return tree;
}

}  // namespace

std::string data_name(const StagedData& data) {
  return (data.how.starts_with("output") ? "output " : "input ") + quoted_text(data.input);
}

StagedTree stage_data(const StagedData& data, std::string_view manifest_bytes,
                      const std::string& cache_directory, const std::string& node,
                      const TellData& tell) {
  StagedTree staged;
  std::string first_file;
  const bool is_auto = data.how == "auto" || data.how == "output";
  try {
    if (content_hash_of(manifest_bytes) != data.manifest) {
      throw StagingFailure{"the list of the data's files is damaged on node " + node};
    }
    const DataManifest manifest = had(read_data_manifest(manifest_bytes));
    const DataCache cache = had(DataCache::open(cache_directory));
    staged.path = cache.tree(data.manifest).string();
    const DataCache::Room room = cache.room(data.size, data.stage_below);
    const bool is_large =
        is_auto && manifest.bytes() > room.share && !cache.is_whole(data.manifest, manifest);
    first_file = manifest.files.front().path;
    if (data.how.ends_with("stream") || is_large) return to_stream(data, room, first_file);
    staged.fetched_bytes = Staging{data, manifest, cache, node, tell}.run();
  } catch (const StagingFailure& failure) {
    staged.failure = failure;
    const bool may_stream = failure.lacks_room && is_auto;
    const auto cache = may_stream ? DataCache::open(cache_directory) : Error{};
    if (cache) return to_stream(data, cache->room(data.size, data.stage_below), first_file);
  }
  return staged;
}

}  // namespace muster
