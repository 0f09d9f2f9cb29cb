#include "launcher/os/private_directory.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace muster {

namespace {

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

// A link is its maker's word for where the directory is: only of ours or root's it is taken.
Result<Fd> open_checked(const std::string& path, struct stat& facts) {
  if (::lstat(path.c_str(), &facts) != 0) return failed("look at", path);
  const bool is_trusted = facts.st_uid == ::geteuid() || facts.st_uid == 0;
  if (S_ISLNK(facts.st_mode) && !is_trusted) return of_another(path, "link", facts);
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

Result<Fd> open_private_directory(const std::string& name) {
  const std::string path = without_slash_at_end(name);
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
