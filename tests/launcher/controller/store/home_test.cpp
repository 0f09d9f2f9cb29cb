#include "launcher/controller/store/home.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>

#include "launcher/controller/main.h"
#include "launcher/controller/store/home.h"
#include "launcher/controller/store/store.h"
#include "launcher/controller/supervisor.h"
#include "launcher/os/fd.h"
#include "tests/catch.h"
#include "tests/launcher/controller/scratch.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// The variables that name a state directory are these ones until the end of the test.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& wanted) {
    for (const char* name : {"MUSTER_HOME", "XDG_STATE_HOME", "HOME"}) {
      const char* value = std::getenv(name);
      before_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      const auto found = wanted.find(name);
      set(name, found == wanted.end() ? std::nullopt : std::optional(found->second));
    }
  }
  ~Variables() {
    for (const auto& [name, value] : before_) set(name, value);
  }

 private:
  static void set(const std::string& name, const std::optional<std::string>& value) {
    if (value)
      ::setenv(name.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name.c_str());
  }
  std::map<std::string, std::optional<std::string>> before_;
};

fs::path home_with(const std::map<std::string, std::string>& variables) {
  const Variables set(variables);
  return Home::from_environment().root;
}

unsigned mode_of(const fs::path& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

TEST_CASE("the state directory is the one that is set, or the user's own, never one in /tmp") {
  const passwd* user = ::getpwuid(::geteuid());
  REQUIRE(user != nullptr);
  const fs::path own = fs::path(user->pw_dir) / ".local/state/muster";
  CHECK(home_with({{"MUSTER_HOME", "/a"}, {"XDG_STATE_HOME", "/b"}, {"HOME", "/c"}}) == "/a");
  CHECK(home_with({{"MUSTER_HOME", "a"}}) == fs::current_path() / "a");
  CHECK(home_with({{"XDG_STATE_HOME", "/b"}, {"HOME", "/c"}}) == "/b/muster");
  CHECK(home_with({{"XDG_STATE_HOME", "b"}, {"HOME", "/c"}}) == "/c/.local/state/muster");
  CHECK(home_with({{"HOME", "/c"}}) == "/c/.local/state/muster");
  for (const char* useless : {"", "c"}) CHECK(home_with({{"HOME", useless}}) == own);
  CHECK(home_with({}) == own);
}

TEST_CASE("where no state directory is known that is an error, and nothing is made") {
  const auto none = own_home(Home{});
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message, ContainsSubstring("set MUSTER_HOME"));
  CHECK_FALSE(check_home(Home{}));
}

TEST_CASE("a state directory that others may write to is refused by who writes and who reads") {
  const Scratch scratch;
  const Home home{scratch.path() / "home"};
  REQUIRE(own_home(home));
  CHECK(mode_of(home.root) == 0700);
  REQUIRE(Store::open(home.root, Store::Mode::read_write));
  REQUIRE(::chmod(home.root.c_str(), 0770) == 0);
  const auto refused = own_home(home);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, ContainsSubstring("others (mode 0770)"));
  CHECK_THAT(refused.error().message, ContainsSubstring("MUSTER_HOME"));
  for (const auto mode : {Store::Mode::read_write, Store::Mode::read_only, Store::Mode::annotate}) {
    const auto store = Store::open(home.root, mode);
    REQUIRE_FALSE(store);
    CHECK(store.error().message == refused.error().message);
  }
  CHECK(mode_of(home.root) == 0770);
}

TEST_CASE("a store that is a link, or another's, is refused and what it leads to left as it is") {
  const Scratch scratch;
  const fs::path home = scratch.path() / "home";
  REQUIRE(own_home(Home{home}));
  const fs::path other = scratch.path() / "other";
  const fs::path file = home / "muster.db";
  const auto is_refused = [&] {
    for (const auto mode :
         {Store::Mode::read_write, Store::Mode::read_only, Store::Mode::annotate}) {
      const auto store = Store::open(home, mode);
      REQUIRE_FALSE(store);
      CHECK_THAT(store.error().message, ContainsSubstring(file.string()));
      CHECK_THAT(store.error().message, ContainsSubstring("cannot be used"));
    }
  };
  fs::create_symlink(other, file);
  is_refused();
  CHECK(fs::is_symlink(file));
  REQUIRE(Fd(::open(other.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)));
  REQUIRE(::chmod(other.c_str(), 0644) == 0);
  is_refused();
  CHECK(mode_of(other) == 0644);
  if (::geteuid() != 0) return;
  fs::remove(file);
  REQUIRE(Store::open(home, Store::Mode::read_write));
  REQUIRE(::chown(file.c_str(), 54321, 54321) == 0);
  is_refused();
}

TEST_CASE("a state directory below one that others may write to is refused") {
  const Scratch scratch;
  REQUIRE(own_home(Home{scratch.path() / "home"}));
  REQUIRE(::chmod(scratch.path().c_str(), 0777) == 0);
  const auto refused = own_home(Home{scratch.path() / "home"});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, ContainsSubstring("`chmod go-w " + scratch.path().string()));
  CHECK_FALSE(Store::open(scratch.path() / "home", Store::Mode::read_only));
}

TEST_CASE("the journal is for its owner's eyes, also one that was not") {
  const Scratch scratch;
  const mode_t usual = ::umask(0);
  const auto modes = [&] {
    const auto store = Store::open(scratch.path(), Store::Mode::read_write);
    REQUIRE(store);
    JobRow row;
    row.name = "a";
    REQUIRE((*store)->append({}, {row}));
    for (const auto& entry : fs::directory_iterator(scratch.path())) {
      CHECK(mode_of(entry.path()) == 0600);
    }
    CHECK(fs::exists(scratch.path() / "muster.db-wal"));
  };
  modes();
  REQUIRE(::chmod((scratch.path() / "muster.db").c_str(), 0644) == 0);
  modes();
  ::umask(usual);
}

TEST_CASE("the controller's log is for its owner's eyes, and so is the one after a rotation") {
  const Scratch scratch;
  const fs::path path = scratch.path() / "controller.log";
  const mode_t usual = ::umask(0);
  open_log(path, false);
  const std::string line(64 << 10, 'x');
  for (int i = 0; i < 80; ++i) log_info(line);
  ::umask(usual);
  open_log(path, true);
  CHECK(mode_of(path) == 0600);
  CHECK(mode_of(scratch.path() / "controller.1.log") == 0600);
}

TEST_CASE("what is no file, such as /dev/null, keeps its mode as the controller's log") {
  const Scratch scratch;
  const fs::path path = scratch.path() / "pipe";
  const mode_t usual = ::umask(0);
  REQUIRE(::mkfifo(path.c_str(), 0666) == 0);
  ::umask(usual);
  const Fd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  REQUIRE(reader);
  open_log(path, false);
  log_info("told");
  std::array<char, 256> heard{};
  CHECK(::read(reader.get(), heard.data(), heard.size()) > 0);
  open_log(path, true);
  CHECK(mode_of(path) == 0666);
}

TEST_CASE("a controller that dies is started at once, one that dies again and again ever later") {
  RestartPause pause;
  CHECK(pause.after(Milliseconds{3'600'000}) == Milliseconds{0});
  for (const int expected : {250, 500, 1000, 2000, 4000, 8000, 8000}) {
    CHECK(pause.after(Milliseconds{4'999}) == Milliseconds{expected});
  }
  CHECK(pause.after(Milliseconds{5'000}) == Milliseconds{0});
  CHECK(pause.after(Milliseconds{0}) == Milliseconds{250});
}

}  // namespace
}  // namespace muster
