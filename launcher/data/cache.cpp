#include "launcher/data/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "launcher/os/private_directory.h"
#include "launcher/staging/content_hash.h"
#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds lock_look{200};

std::int64_t time_ns(const struct stat& facts) {
  return std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

timespec time_of(std::int64_t ns) {
  constexpr std::int64_t second = 1'000'000'000;
  std::int64_t rest = ns % second;
  std::int64_t whole = ns / second;
  if (rest < 0) rest += second, --whole;
  return {whole, rest};
}

// Nothing: another has it, or it cannot be.
std::optional<Fd> locked(const fs::path& file, int how) {
  Fd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock || ::flock(lock.get(), how | LOCK_NB) != 0) return std::nullopt;
  return lock;
}

// Directories of a tree are 0555, which stops their removal.
void remove_all_of(const fs::path& directory) {
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(directory, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (entry->is_directory() && !entry->is_symlink()) ::chmod(entry->path().c_str(), 0700);
  }
  ::chmod(directory.c_str(), 0700);
  fs::remove_all(directory, ignored);
}

void forbid_changes(const fs::path& tree) {
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(tree, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (entry->is_directory()) ::chmod(entry->path().c_str(), 0555);
  }
  ::chmod(tree.c_str(), 0555);
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

struct Disk {
  std::int64_t all = 0;
  std::int64_t free = 0;
};

Disk disk_of(const fs::path& root) {
  struct statvfs facts {};
  if (::statvfs(root.c_str(), &facts) != 0) return {};
  const auto block = static_cast<std::int64_t>(facts.f_frsize);
  return {block * static_cast<std::int64_t>(facts.f_blocks),
          block * static_cast<std::int64_t>(facts.f_bavail)};
}

struct Objects {
  std::int64_t bytes = 0;   // of all
  std::int64_t unused = 0;  // of those that no tree has
};

// Counts them; removes those that no tree has, where that is wanted.
Objects look_at_objects(const fs::path& root, bool removes) {
  Objects seen;
  for (const fs::path& folder : entries_of(root / "objects")) {
    for (const fs::path& object : entries_of(folder)) {
      struct stat facts {};
      if (::lstat(object.c_str(), &facts) != 0) continue;
      const bool is_unused = facts.st_nlink == 1;
      if (is_unused) seen.unused += facts.st_size;
      if (is_unused && removes && ::unlink(object.c_str()) == 0) continue;
      seen.bytes += facts.st_size;
    }
  }
  return seen;
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
    const auto lock = locked(root / "locks" / name, LOCK_EX);
    if (!lock) continue;
    remove_all_of(cache.tree(name));
    ::unlink((root / "locks" / name).c_str());
    return true;
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
  if (errno == ENOENT) {
    std::error_code failure;
    fs::create_directories(path.parent_path(), failure);
    if (::link(object.c_str(), path.c_str()) == 0) return Done{};
  }
  return system_error("link " + path.string());
}

}  // namespace

std::string size_text(std::int64_t bytes) {
  constexpr std::array<const char*, 6> units{"B", "kB", "MB", "GB", "TB", "PB"};
  double number = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (number >= 1000 && unit + 1 < units.size()) number /= 1000, ++unit;
  return unit == 0 ? std::to_string(bytes) + " B" : printed("%.1f %s", number, units[unit]);
}

std::optional<std::int64_t> share_of(std::string_view text, std::int64_t all_bytes) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = read_integer(text.substr(0, end));
  const std::string_view unit = text.substr(end);
  if (!number || end > 12) return std::nullopt;
  if (unit == "%") return *number > 100 ? std::nullopt : std::optional(all_bytes / 100 * *number);
  std::int64_t factor = unit.empty() ? 1 : 0;
  std::int64_t each = unit.ends_with("ib") ? 1024 : 1000;
  if (unit.starts_with('m')) factor = each * each;
  if (unit.starts_with('g')) factor = each * each * each;
  if (unit.starts_with('t')) factor = each * each * each * each;
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
      if (std::abs(*number) > INT64_MAX / factor) return std::nullopt;
      const std::int64_t bytes = *number * factor;
      return bytes >= 0 ? bytes : std::max<std::int64_t>(free_bytes + bytes, 0);
    }
    factor *= 1024;
  }
  return std::nullopt;
}

std::string data_cache_directory(const std::string& asked, const std::string& node_home) {
  return asked.empty() ? node_home + "/data" : asked;
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

std::optional<Fd> DataCache::hold(const std::string& manifest) const {
  if (!is_content_hash(manifest)) return std::nullopt;
  auto lock = locked(root_ / "locks" / manifest, LOCK_SH);
  struct stat ours {
  }, named{};
  // It may have been removed between the two calls: then another would lock another file.
  const bool is_there = lock && ::fstat(lock->get(), &ours) == 0 &&
                        ::stat((root_ / "locks" / manifest).c_str(), &named) == 0 &&
                        ours.st_ino == named.st_ino;
  if (!is_there) return std::nullopt;
  ::futimens(lock->get(), nullptr);
  return lock;
}

Result<Fd> DataCache::fetching(const std::string& manifest,
                               const std::function<void(std::string_view)>& tell) const {
  const std::string file = incoming(manifest).string() + ".lock";
  for (int looks = 0;; ++looks) {
    Fd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) return system_error("open " + file);
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
    tell("data: another job fetches the same" + std::string(1 + looks % 3, '.'));
    std::this_thread::sleep_for(lock_look);
  }
}

bool DataCache::is_as_listed(const fs::path& path, const DataFile& file) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
         facts.st_size == file.bytes && time_ns(facts) == file.modified_ns &&
         (facts.st_mode & 0222) == 0;
}

bool DataCache::is_whole(const std::string& manifest, const DataManifest& files) const {
  return std::ranges::all_of(files.files, [&](const DataFile& file) {
    return is_as_listed(tree(manifest) / file.path, file);
  });
}

Status DataCache::keep(const fs::path& fetched, const std::string& name,
                       const DataFile& file) const {
  const fs::path path = object(name);
  const Fd bytes(::open(fetched.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const std::array times{time_of(file.modified_ns), time_of(file.modified_ns)};
  const bool is_safe = bytes && ::fchmod(bytes.get(), 0444) == 0 &&
                       ::futimens(bytes.get(), times.data()) == 0 && ::fsync(bytes.get()) == 0;
  if (!is_safe) return system_error("keep " + fetched.string());
  std::error_code ignored;
  fs::create_directory(path.parent_path(), ignored);
  // A second name: what has one alone may be removed to make room. What is there under the first
  // was looked at before and is not the object.
  ::unlink(path.c_str());
  if (::link(fetched.c_str(), path.c_str()) == 0 || errno == EEXIST) return Done{};
  return system_error("keep " + path.string());
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
  remove_all_of(tree(manifest));
  if (::rename(made.c_str(), tree(manifest).c_str()) != 0) {
    return system_error("make " + tree(manifest).string());
  }
  forbid_changes(tree(manifest));
  return Done{};
}

DataCache::Room DataCache::room(const std::string& size, const std::string& share) const {
  const Disk disk = disk_of(root_);
  const std::int64_t limit = share_of(size, disk.all).value_or(0);
  return {share_of(share, limit).value_or(limit / 2), disk.free};
}

Status DataCache::make_room(std::int64_t bytes, const std::string& size) const {
  const Fd one(::open((root_ / "locks").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!one || ::flock(one.get(), LOCK_EX) != 0) return system_error("lock " + root_.string());
  const Disk disk = disk_of(root_);
  const auto limit = share_of(size, disk.all);
  if (!limit) return Error{"data.size: '" + size + "' is not a size"};
  remove_left_incoming(root_);
  Objects seen = look_at_objects(root_, false);
  const auto fits = [&] { return seen.bytes + bytes <= *limit && bytes <= disk_of(root_).free; };
  if (fits()) return Done{};
  seen = look_at_objects(root_, true);
  while (!fits() && remove_oldest_tree(*this, root_)) seen = look_at_objects(root_, true);
  if (fits()) return Done{};
  return Error{"the data need " + size_text(bytes) + " in " + root_.string() + ", which may take " +
               size_text(*limit) + " (data.size: " + size + ") and holds " + size_text(seen.bytes) +
               " in use; " + size_text(disk_of(root_).free) +
               " are free; set data.cache or data.size in the cluster file"};
}

}  // namespace muster
