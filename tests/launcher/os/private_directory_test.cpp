#include "launcher/os/private_directory.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/catch.h"
#include "tests/launcher/controller/scratch.h"

using namespace muster;
namespace fs = std::filesystem;

namespace {

struct Place : Scratch {
  std::string below(const std::string& name) const { return (path() / name).string(); }
};

unsigned mode_of(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

void make_directory(const std::string& path, mode_t mode) {
  REQUIRE(::mkdir(path.c_str(), 0700) == 0);
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

constexpr uid_t somebody = 54321;
bool is_root() {
  return ::geteuid() == 0;
}

// Root gives one away; anybody else finds root's.
std::string directory_of_another(const Place& folder) {
  if (!is_root()) return "/usr";
  make_directory(folder.below("theirs"), 0700);
  REQUIRE(::chown(folder.below("theirs").c_str(), somebody, somebody) == 0);
  return folder.below("theirs");
}

}  // namespace

TEST_CASE("a private directory is made with its parents, for its owner alone") {
  const Place folder;
  const mode_t usual = ::umask(0);
  const auto made = open_private_directory(folder.below("a/b/c/"));
  ::umask(usual);
  REQUIRE(made);
  for (const char* name : {"a", "a/b", "a/b/c"}) CHECK(mode_of(folder.below(name)) == 0700);
  CHECK(check_private_directory(folder.below("a/b/c")));
}

TEST_CASE("a directory that others could read is closed to them, by who writes to it alone") {
  const Place folder;
  make_directory(folder.below("open"), 0755);
  CHECK(check_private_directory(folder.below("open")));
  CHECK(mode_of(folder.below("open")) == 0755);
  CHECK(open_private_directory(folder.below("open")));
  CHECK(mode_of(folder.below("open")) == 0700);
}

TEST_CASE("a directory that others may write to is refused and left as it is") {
  const Place folder;
  const mode_t mode = GENERATE(0720, 0702, 0775, 01777);
  make_directory(folder.below("shared"), mode);
  const auto opened = open_private_directory(folder.below("shared"));
  REQUIRE_FALSE(opened);
  CHECK_THAT(opened.error().message, ContainsSubstring("may be written to by others"));
  CHECK_THAT(opened.error().message, ContainsSubstring(folder.below("shared")));
  CHECK_FALSE(check_private_directory(folder.below("shared")));
  CHECK(mode_of(folder.below("shared")) == mode);
}

TEST_CASE("another user's directory is refused, and named with owner and mode") {
  const Place folder;
  const std::string theirs = directory_of_another(folder);
  const auto opened = open_private_directory(theirs);
  REQUIRE_FALSE(opened);
  CHECK_THAT(opened.error().message, ContainsSubstring(is_root() ? "(uid 54321)" : "user root"));
  CHECK_THAT(opened.error().message, ContainsSubstring(is_root() ? "mode 0700" : "mode 0755"));
  const auto checked = check_private_directory(theirs);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().message == opened.error().message);
}

TEST_CASE("a link is followed where its maker is trusted, and what it leads to is checked") {
  const Place folder;
  make_directory(folder.below("mine"), 0700);
  REQUIRE(::symlink("mine", folder.below("link").c_str()) == 0);
  CHECK(open_private_directory(folder.below("link")));
  const std::string theirs = directory_of_another(folder);
  REQUIRE(::symlink(theirs.c_str(), folder.below("away").c_str()) == 0);
  CHECK_FALSE(open_private_directory(folder.below("away")));
  if (!is_root()) return;  // nobody else can make another user's link
  REQUIRE(::lchown(folder.below("link").c_str(), somebody, somebody) == 0);
  for (const char* name : {"link", "link/"}) {
    const auto opened = open_private_directory(folder.below(name));
    REQUIRE_FALSE(opened);
    CHECK_THAT(opened.error().message, ContainsSubstring("is a link of user"));
  }
}

TEST_CASE("a directory on the way that others may write to is refused, but for a sticky one") {
  const Place folder;
  for (const mode_t mode : {0772, 0777, 02777}) {
    const std::string way = folder.below("way" + std::to_string(mode));
    make_directory(way, mode);
    make_directory(way + "/home", 0700);
    REQUIRE(::symlink((way + "/home").c_str(), folder.below("by").c_str()) == 0);
    for (const std::string& path :
         {way + "/home", way + "/home/", way + "/home/new/below", way + "/../" + way + "/home",
          folder.below("by"), folder.below("by/below")}) {
      CAPTURE(path);
      const auto opened = open_private_directory(path);
      REQUIRE_FALSE(opened);
      CHECK_THAT(opened.error().message, ContainsSubstring("`chmod go-w " + way + "`"));
      CHECK_FALSE(check_private_directory(path));
    }
    CHECK(fs::is_empty(way + "/home"));
    REQUIRE(::chmod(way.c_str(), 01777) == 0);
    CHECK(open_private_directory(folder.below("by/below")));
    REQUIRE(::unlink(folder.below("by").c_str()) == 0);
  }
}

TEST_CASE("a group may write to directories on the way where it is their owner's alone") {
  const Place folder;
  make_directory(folder.below("way"), 0775);
  const std::string home = folder.below("way/home");
  const passwd* user = ::getpwuid(::geteuid());
  const group* own = ::getgrgid(::getegid());
  const bool is_alone = user != nullptr && own != nullptr && user->pw_gid == ::getegid() &&
                        std::string(own->gr_name) == user->pw_name && *own->gr_mem == nullptr;
  CHECK(static_cast<bool>(open_private_directory(home)) == is_alone);
  if (!is_root()) return;
  REQUIRE(::chown(folder.below("way").c_str(), 0, somebody) == 0);
  CHECK_FALSE(open_private_directory(home));
}

TEST_CASE("another user's directory or link on the way is refused, and nothing is made there") {
  const Place folder;
  if (!is_root()) return;
  const std::string theirs = directory_of_another(folder);
  make_directory(folder.below("mine"), 0700);
  REQUIRE(::symlink("mine", folder.below("link").c_str()) == 0);
  REQUIRE(::lchown(folder.below("link").c_str(), somebody, somebody) == 0);
  for (const std::string& way : {theirs, folder.below("link")}) {
    const auto opened = open_private_directory(way + "/home");
    REQUIRE_FALSE(opened);
    CHECK_THAT(opened.error().message, ContainsSubstring("of user (uid 54321)"));
  }
  CHECK(fs::is_empty(theirs));
  CHECK(fs::is_empty(folder.below("mine")));
  CHECK(check_way_to(theirs + "/home", somebody));
}

TEST_CASE("links that lead to each other are an error") {
  const Place folder;
  REQUIRE(::symlink("b", folder.below("a").c_str()) == 0);
  REQUIRE(::symlink("a", folder.below("b").c_str()) == 0);
  CHECK_FALSE(open_private_directory(folder.below("a/home")));
}

TEST_CASE("a program is opened where its owner and the way to it are trusted") {
  const Place folder;
  const std::string path = folder.below("program");
  REQUIRE(fs::copy_file("/bin/true", path));
  const auto opens = [&] { return static_cast<bool>(open_program(path, ::geteuid())); };
  const auto with_mode = [&](const std::string& name, mode_t mode) {
    REQUIRE(::chmod(name.c_str(), mode) == 0);
    return opens();
  };
  CHECK(with_mode(path, 0755));
  CHECK_FALSE(with_mode(path, 0757));
  CHECK(with_mode(path, 0755));
  CHECK_FALSE(with_mode(folder.path(), 0777));
  CHECK(with_mode(folder.path(), 0755));
  if (is_root()) {
    REQUIRE(::chown(path.c_str(), somebody, somebody) == 0);
    CHECK_FALSE(opens());
    CHECK(open_program(path, somebody));
    REQUIRE(::chown(path.c_str(), 0, somebody) == 0);
    CHECK_FALSE(with_mode(path, 0775));
  }
  fs::rename(path, folder.below("elsewhere"));
  CHECK_FALSE(opens());
  REQUIRE(::symlink("elsewhere", path.c_str()) == 0);
  CHECK_FALSE(opens());
}

TEST_CASE("what is no directory, or not there, is an error that says so") {
  const Place folder;
  CHECK_FALSE(check_private_directory(folder.below("absent")));
  CHECK_FALSE(fs::exists(folder.below("absent")));
  const auto null = open_private_directory("/dev/null");
  REQUIRE_FALSE(null);
  CHECK_THAT(null.error().message, ContainsSubstring("/dev/null: Not a directory"));
  CHECK_FALSE(open_private_directory("/dev/null/below"));
}
