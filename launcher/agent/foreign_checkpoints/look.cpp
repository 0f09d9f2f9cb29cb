#include "launcher/agent/foreign_checkpoints/look.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <limits>
#include <memory>

#include "scheduler/text/number.h"

namespace muster {

namespace {

constexpr std::size_t entries_limit = 10'000;
constexpr std::size_t names_limit = 1'000'000;

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// 0: a time that is still to come says nothing.
std::int64_t change_of(const struct stat& facts) {
  constexpr std::int64_t ns_per_s = 1'000'000'000;
  constexpr std::int64_t clocks_differ_s = 3600;
  const bool is_possible =
      facts.st_mtim.tv_sec >= 0 && facts.st_mtim.tv_sec < ::time(nullptr) + clocks_differ_s;
  return is_possible ? facts.st_mtim.tv_sec * ns_per_s + facts.st_mtim.tv_nsec : 0;
}

// Nothing: it is a link or the like, or went away, or cannot be read.
std::optional<FolderEntry> entry_at(int folder, const std::string& name) {
  struct stat facts {};
  if (::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) return std::nullopt;
  const auto inode = static_cast<std::int64_t>(facts.st_ino);
  return FolderEntry{
      name, S_ISDIR(facts.st_mode), facts.st_size, change_of(facts), inode, facts.st_uid};
}

// Names without a number are few, and tell what the others are.
void keep_newest(std::vector<std::string>& names) {
  if (names.size() <= entries_limit) return;
  const auto rank = [](const std::string& name) {
    return last_number(name).value_or(std::numeric_limits<std::int64_t>::max());
  };
  std::ranges::nth_element(names, names.begin() + entries_limit, std::greater<>{}, rank);
  names.resize(entries_limit);
}

}  // namespace

std::string_view ListedFolder::name() const {
  return std::string_view(path).substr(path.rfind('/') + 1);
}

const FolderEntry* ListedFolder::find(std::string_view entry) const {
  const auto found = std::ranges::lower_bound(entries, entry, {}, &FolderEntry::name);
  return found != entries.end() && found->name == entry ? &*found : nullptr;
}

std::optional<ListedFolder> Look::open(const std::string& path) const {
  if (is_over()) return std::nullopt;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (!directory) return std::nullopt;
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    names.emplace_back(name);
    if (names.size() == names_limit || is_over()) break;
  }
  ListedFolder folder{path};
  folder.is_partial = errno != 0 || names.size() > entries_limit;
  keep_newest(names);
  struct stat facts {};
  if (::fstat(::dirfd(directory.get()), &facts) == 0) folder.changed_ns = change_of(facts);
  folder.owner = facts.st_uid;
  for (const std::string& name : names) {
    if (is_over()) return std::nullopt;
    if (auto entry = entry_at(::dirfd(directory.get()), name)) {
      folder.entries.push_back(std::move(*entry));
    } else {
      folder.is_partial = true;
    }
  }
  std::ranges::sort(folder.entries, {}, &FolderEntry::name);
  return folder;
}

std::optional<std::int64_t> last_number(std::string_view name) {
  const auto last = std::find_if(name.rbegin(), name.rend(), is_digit);
  const auto before = std::find_if_not(last, name.rend(), is_digit);
  return read_integer({before.base(), last.base()});
}

std::optional<std::int64_t> step_named(std::string_view stem) {
  const std::size_t before = stem.find_last_not_of("0123456789");
  if (before == stem.npos) return read_integer(stem);
  if (before + 1 == stem.size()) return std::nullopt;
  const std::string_view head = stem.substr(0, before + 1);
  const bool is_apart = head.ends_with('-') || head.ends_with('_') || head.ends_with('=');
  if (!is_apart && !head.ends_with("step") && !head.ends_with("iter")) return std::nullopt;
  return read_integer(stem.substr(before + 1));
}

std::optional<std::int64_t> number_between(std::string_view name, std::string_view prefix,
                                           std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  if (name.size() <= prefix.size() + suffix.size()) return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  return std::ranges::all_of(name, is_digit) ? read_integer(name) : std::nullopt;
}

}  // namespace muster
