// The real supervisor through the lives of its controllers, which do as a script says; and who ends
// it.
#include "launcher/controller/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>
#include <vector>

#include "launcher/os/read_file.h"
#include "tests/catch.h"
#include "tests/launcher/controller/scratch.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

bool comes_true(const std::function<bool()>& holds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    ::usleep(2'000);
  }
  return true;
}

int code_of(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

struct ScriptedLives {
  explicit ScriptedLives(const std::vector<std::string>& script) {
    std::ofstream file(home.root / "script");
    for (const std::string& word : script) file << word << "\n";
  }
  ~ScriptedLives() {
    // The supervisor first, so that it starts no other.
    if (is_supervised()) ::kill(supervisor(), SIGKILL);
    for (const pid_t life : lives()) ::kill(life, SIGKILL);
  }

  // What the process that was called ends with.
  int start() const {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("MUSTER_HOME", home.root.c_str(), 1);
      ::execl(MUSTER_SUPERVISED_PROGRAM, "supervised", nullptr);
      ::_exit(5);
    }
    return code_of(child);
  }

  std::vector<pid_t> lives() const {
    std::ifstream file(home.root / "lives");
    std::vector<pid_t> pids;
    pid_t pid = 0;
    for (std::string idle; file >> pid >> idle;) pids.push_back(pid);
    return pids;
  }
  bool is_served() const { return fs::exists(home.socket()) && is_locked(home.lock()); }
  bool is_supervised() const { return is_locked(supervisor_lock(home)); }
  pid_t supervisor() const { return std::stoi(text_of_file(supervisor_lock(home))); }
  bool logged(const std::string& words) const {
    return text_of_file(home.log()).find(words) != std::string::npos;
  }
  // The one that serves is killed, and that is seen; only the next one has a socket again.
  void kill_controller() const {
    const std::size_t before = lives().size();
    fs::remove(home.socket());
    ::kill(lives().back(), SIGKILL);
    REQUIRE(comes_true([&] { return !is_locked(home.lock()) || lives().size() > before; }));
  }

  Scratch folder;
  Home home{folder.path()};
};

TEST_CASE("who starts a controller is told when it serves; who ends it waits until it is gone") {
  const ScriptedLives world({"serve"});
  CHECK(world.start() == 0);
  CHECK(world.is_served());
  REQUIRE(world.lives().size() == 1);
  CHECK(text_of_file(world.home.root / "lives").ends_with(" 7\n"));  // the idle limit
  CHECK(world.is_supervised());
  CHECK(::getpgid(world.supervisor()) != ::getpgid(0));
  CHECK(fs::read_symlink("/proc/" + std::to_string(world.supervisor()) + "/cwd") == "/");

  CHECK(world.start() == 0);  // there is one
  CHECK(world.lives().size() == 1);

  const auto stopped = stop_supervised(world.home);
  REQUIRE(stopped);
  CHECK(*stopped);
  CHECK_FALSE(is_locked(world.home.lock()));
  CHECK_FALSE(world.is_supervised());
  CHECK_FALSE(fs::exists(world.home.socket()));
  const auto again = stop_supervised(world.home);
  REQUIRE(again);
  CHECK_FALSE(*again);
}

TEST_CASE("a controller that is killed is started again, one that ends in order is not") {
  const ScriptedLives world({"serve"});
  REQUIRE(world.start() == 0);
  world.kill_controller();
  CHECK(comes_true([&] { return world.lives().size() == 2 && world.is_served(); }));
  CHECK(world.logged("the controller was killed by signal 9; it is started again in 250 ms"));
  ::kill(world.lives().back(), SIGTERM);
  CHECK(comes_true([&] { return !world.is_supervised(); }));
  CHECK(world.lives().size() == 2);
}

TEST_CASE("a controller that dies of itself is started again, one that ends of itself is not") {
  const ScriptedLives dies({"die", "serve"});
  REQUIRE(dies.start() == 0);
  CHECK(comes_true([&] { return dies.lives().size() == 2 && dies.is_served(); }));
  CHECK(dies.logged("the controller ended with 5; it is started again"));
  const ScriptedLives ends({"end", "serve"});
  REQUIRE(ends.start() == 0);
  CHECK(comes_true([&] { return !ends.is_supervised(); }));
  CHECK(ends.lives().size() == 1);
}

TEST_CASE("who is told to end does not start another controller, however this one ends") {
  const ScriptedLives world({"sulk", "serve"});
  REQUIRE(world.start() == 0);
  const auto stopped = stop_supervised(world.home);
  REQUIRE(stopped);
  CHECK(*stopped);
  CHECK(world.lives().size() == 1);
}

TEST_CASE("a first start that fails is told, and not tried again") {
  const ScriptedLives world({"3", "serve"});
  CHECK(world.start() == 99);
  CHECK(comes_true([&] { return !world.is_supervised(); }));
  CHECK(world.lives().size() == 1);
}

TEST_CASE("a controller that finds another one does not count as one that died") {
  const ScriptedLives world({std::to_string(another_controller_serves), "serve"});
  CHECK(world.start() == 0);
  CHECK(world.lives().size() == 2);
  CHECK_FALSE(world.logged("started again"));
}

TEST_CASE("a supervisor that cannot have its lock says why, and who started it hears of it") {
  const ScriptedLives world({"serve"});
  fs::create_directory(supervisor_lock(world.home));
  CHECK(world.start() == 99);
  CHECK(world.logged("supervisor.lock: Is a directory"));
  CHECK(world.lives().empty());
  fs::remove(supervisor_lock(world.home));
}

TEST_CASE("the lock of a supervisor names its process and nothing else") {
  const ScriptedLives world({"serve"});
  std::ofstream(supervisor_lock(world.home)) << "4000000000 of a longer text before\n";
  REQUIRE(world.start() == 0);
  const pid_t pid = world.supervisor();
  CHECK(text_of_file(supervisor_lock(world.home)) == std::to_string(pid) + "\n");
  CHECK(::kill(pid, 0) == 0);
}

TEST_CASE("a controller that cannot start again is tried until its supervisor is told to end") {
  const ScriptedLives world({"serve", "3"});
  REQUIRE(world.start() == 0);
  world.kill_controller();
  CHECK(comes_true([&] { return world.logged("ended with 3; it is started again in 500 ms"); }));
  CHECK(stop_supervised(world.home));
  CHECK(world.lives().size() == 2);  // it did not wait for the next
}

TEST_CASE("a supervisor waits for a controller that it did not start, and goes on if that dies") {
  const bool has_died = GENERATE(true, false);  // one that ends in order removes its socket
  CAPTURE(has_died);
  const ScriptedLives world({"serve"});
  auto other = take_lock_file(world.home.lock());
  REQUIRE(other);
  std::ofstream(world.home.socket()).close();
  CHECK(world.start() == 0);
  CHECK(world.lives().empty());
  if (!has_died) fs::remove(world.home.socket());
  other->reset();
  if (has_died)
    CHECK(comes_true([&] { return world.lives().size() == 1 && world.is_served(); }));
  else
    CHECK(comes_true([&] { return !world.is_supervised(); }));
  CHECK(world.lives().size() == (has_died ? 1 : 0));
}

TEST_CASE("no controller is started for a state directory that is gone") {
  const ScriptedLives world({"serve"});
  REQUIRE(world.start() == 0);
  const Fd lock(::open(supervisor_lock(world.home).c_str(), O_RDONLY | O_CLOEXEC));
  fs::remove(supervisor_lock(world.home));
  world.kill_controller();
  CHECK(comes_true([&] { return ::flock(lock.get(), LOCK_SH | LOCK_NB) == 0; }));
  CHECK(world.lives().size() == 1);
}

// Whoever runs on for as long as nobody ends it.
struct Bystander {
  pid_t pid = ::fork();
  Bystander() {
    if (pid != 0) return;
    ::pause();
    ::_exit(0);
  }
  ~Bystander() {
    CHECK(::waitpid(pid, nullptr, WNOHANG) == 0);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
};

TEST_CASE("a process whose number is left in a file that nobody holds is let be") {
  const Scratch folder;
  const Home home{folder.path()};
  const Bystander bystander;
  std::ofstream(supervisor_lock(home)) << bystander.pid << "\n";
  const auto stopped = stop_supervised(home);
  REQUIRE(stopped);
  CHECK_FALSE(*stopped);
}

TEST_CASE("a process that an old lock file names is not told to end in place of the supervisor") {
  const ScriptedLives world({"serve"});
  REQUIRE(world.start() == 0);
  const std::string right = text_of_file(supervisor_lock(world.home));
  const Bystander bystander;
  std::ofstream(supervisor_lock(world.home)) << bystander.pid << "\n";
  std::thread writer([&] {  // as the holder does a moment later
    ::usleep(300'000);
    std::ofstream(supervisor_lock(world.home)) << right;
  });
  const auto stopped = stop_supervised(world.home);
  writer.join();
  REQUIRE(stopped);
  CHECK(*stopped);
  CHECK_FALSE(world.is_supervised());
}

TEST_CASE("where it is not known who supervises, that is an error, and nobody gets a signal") {
  const Scratch folder;
  const Home home{folder.path()};
  const auto held = take_lock_file(supervisor_lock(home));
  REQUIRE(held);
  for (const char* text : {"", "0\n", "words\n"}) {
    INFO(text);
    std::ofstream(supervisor_lock(home)) << text;
    const auto stopped = stop_supervised(home);
    REQUIRE_FALSE(stopped);
    CHECK_THAT(stopped.error().message,
               ContainsSubstring("who holds " + supervisor_lock(home).string()));
  }
}

TEST_CASE("a controller without a supervisor is waited for when it is to be gone") {
  const Scratch folder;
  const Home home{folder.path()};
  auto held = take_lock_file(home.lock());
  REQUIRE(held);
  std::atomic<bool> is_gone = false;
  std::thread ending([&] {
    ::usleep(30'000);
    is_gone = true;
    held->reset();
  });
  const auto stopped = stop_supervised(home);
  CHECK(is_gone);
  ending.join();
  REQUIRE(stopped);
  CHECK_FALSE(*stopped);
}

}  // namespace
}  // namespace muster
