#include "launcher/os/private_directory.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr mode_t owner_only = 0700;
constexpr mode_t others_write = 0022;
constexpr mode_t others_anything = 0077;

Error failed(const std::string& attempted, const std::string& path) {
  return Error{"cannot " + attempted + " " + path + ": " + std::strerror(errno)};
}

std::string user_text(uid_t user) {
  const passwd* entry = ::getpwuid(user);
  return "user " + (entry == nullptr ? "" : entry->pw_name + std::string(" ")) + "(uid " +
         std::to_string(user) + ")";
}

std::string mode_text(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "0%03o", static_cast<unsigned>(mode & 07777));
  return text;
}

Error of_another(const std::string& path, const char* what, const struct stat& facts) {
  return Error{path + " is a " + what + " of " + user_text(facts.st_uid) + " with mode " +
               mode_text(facts.st_mode) + ", and this is " + user_text(::geteuid())};
}

// A slash at the end would follow a link.
std::string without_slash_at_end(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Status make_with_parents(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), owner_only) != 0 && errno != EEXIST) {
      return failed("make the directory", part);
    }
    if (end == std::string::npos) return Done{};
  }
}

// Many systems give each user a group of his own, and let it write to what he makes.
bool is_alone_in_group(uid_t owner, gid_t group) {
  const passwd* user = ::getpwuid(owner);
  if (user == nullptr || user->pw_gid != group) return false;
  const struct group* entry = ::getgrgid(group);
  if (entry == nullptr || std::strcmp(entry->gr_name, user->pw_name) != 0) return false;
  return *entry->gr_mem == nullptr;
}

bool others_may_write(const struct stat& facts) {
  const mode_t who = facts.st_mode & others_write;
  return (who & S_IWOTH) != 0 || (who != 0 && !is_alone_in_group(facts.st_uid, facts.st_gid));
}

void go_first(std::vector<fs::path>& ahead, const fs::path& way) {
  const std::vector<fs::path> parts(way.begin(), way.end());
  ahead.insert(ahead.end(), parts.rbegin(), parts.rend());
}

// Who may write to a directory can put another thing in the place of what is in it, but for a
// sticky one, where what is somebody's stays his.
Status check_passed(const fs::path& at, const struct stat& facts, const std::string& path) {
  if ((facts.st_mode & S_ISVTX) != 0 || !others_may_write(facts)) return Done{};
  return Error{at.string() + " may be written to by others (mode " + mode_text(facts.st_mode) +
               "), who could replace " + path + ": see that all in it is yours, then `chmod go-w " +
               at.string() + "`"};
}

Result<Fd> open_checked(const std::string& path, struct stat& facts) {
  if (auto safe = check_way_to(path, ::geteuid()); !safe) return safe.error();
  Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fstat(directory.get(), &facts) != 0) {
    return failed("open the directory", path);
  }
  if (facts.st_uid != ::geteuid()) return of_another(path, "directory", facts);
  if ((facts.st_mode & others_write) == 0) return directory;
  return Error{path + " may be written to by others (mode " + mode_text(facts.st_mode) +
               "): see that all in it is yours, then `chmod 700 " + path + "`"};
}

}  // namespace

std::string owner_and_mode(const struct stat& facts) {
  return user_text(facts.st_uid) + ", mode " + mode_text(facts.st_mode);
}

// Each link stands in a directory of its own, so they are followed here.
Status check_way_to(const std::string& path, uid_t trusted) {
  constexpr int links_most = 40;
  std::error_code none;
  std::vector<fs::path> ahead;
  go_first(ahead, fs::absolute(path, none));
  fs::path at;
  for (int links = 0; !ahead.empty();) {
    const fs::path part = std::move(ahead.back());
    ahead.pop_back();
    if (part.empty() || part == ".") continue;
    at = part == ".." ? at.parent_path() : at / part;
    struct stat facts {};
    if (::lstat(at.c_str(), &facts) != 0) {
      return errno == ENOENT ? Status(Done{}) : failed("look at", at);
    }
    const bool is_link = S_ISLNK(facts.st_mode);
    const bool is_trusted = facts.st_uid == trusted || facts.st_uid == 0;
    const bool is_last = ahead.empty() && !is_link;
    if (!is_trusted && !is_last) return of_another(at, is_link ? "link" : "directory", facts);
    if (is_link) {
      errno = ELOOP;
      if (++links > links_most) return failed("look at", path);
      go_first(ahead, fs::read_symlink(at, none));
      at = at.parent_path();
    } else if (!is_last) {
      if (auto safe = check_passed(at, facts, path); !safe) return safe;
    }
  }
  return Done{};
}

Result<Fd> open_program(const std::string& path, uid_t trusted) {
  if (auto safe = check_way_to(path, trusted); !safe) return safe.error();
  Fd program(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts {};
  if (!program || ::fstat(program.get(), &facts) != 0) return failed("open", path);
  if (!S_ISREG(facts.st_mode)) return Error{path + " is a link or no file"};
  if (facts.st_uid != trusted && facts.st_uid != 0) return of_another(path, "program", facts);
  if (!others_may_write(facts)) return program;
  return Error{path + " may be written to by others (mode " + mode_text(facts.st_mode) +
               "): install it again, then `chmod go-w " + path + "`"};
}

Result<Fd> open_private_directory(const std::string& name) {
  const std::string path = without_slash_at_end(name);
  if (auto safe = check_way_to(path, ::geteuid()); !safe) return safe.error();
  if (auto made = make_with_parents(path); !made) return made.error();
  struct stat facts {};
  auto directory = open_checked(path, facts);
  if (!directory || (facts.st_mode & others_anything) == 0) return directory;
  // Some file systems say yes and keep the mode they have.
  if (::fchmod(directory->get(), owner_only) != 0 || ::fstat(directory->get(), &facts) != 0) {
    return failed("set mode 0700 of", path);
  }
  if ((facts.st_mode & others_anything) == 0) return directory;
  return Error{path + " keeps mode " + mode_text(facts.st_mode) +
               ": its file system has no modes, and others may read there"};
}

Status check_private_directory(const std::string& name) {
  struct stat facts {};
  const auto directory = open_checked(without_slash_at_end(name), facts);
  return directory ? Status(Done{}) : directory.error();
}

}  // namespace muster
