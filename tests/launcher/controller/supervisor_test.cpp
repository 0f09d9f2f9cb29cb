// The supervisor with the real processes, but for the controller: this program stands in for it
// when it is started as one.
#include "launcher/controller/supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "launcher/os/lock_file.h"
#include "launcher/os/read_file.h"
#include "tests/catch.h"
#include "tests/launcher/controller/scratch.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// One word of the file `lives` for each life, the last one for all later ones:
//   serves   until it is told to end, and ends in order   ends    serves and ends in order at once
//   sulks    the same, but ends with an error             dies    serves and dies at once
//   finds    that another controller serves               fails   before it serves
// Each life is told in the file `log`.
[[noreturn]] void stand_in(const fs::path& home, int line) {
  ::alarm(60);  // a test that fails must leave nothing behind
  std::istringstream lives(text_of_file(home / "lives"));
  std::ifstream earlier(home / "log");
  std::string word;
  lives >> word;
  for (std::string told; earlier >> told;) {
    if (told == "life") lives >> word;
  }
  std::ofstream log(home / "log", std::ios::app);
  log << "life " << word << std::endl;
  if (word == "fails") ::_exit(3);
  if (word == "finds") ::_exit(another_controller_serves);
  const auto lock = take_lock_file(Home{home}.lock());
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  if (!lock || !*lock || !write_all(line, {&controller_serves, 1})) ::_exit(4);
  ::close(line);
  if (word == "dies") ::_exit(5);
  int signal = 0;
  const bool stays = word == "serves" || word == "sulks";
  if (stays && ::sigwait(&ends, &signal) == 0) log << "told to end" << std::endl;
  ::_exit(word == "sulks" ? 6 : 0);
}

// Before Catch2 reads the words of a command line that is not its own.
__attribute__((constructor)) void stand_in_for_controller(int count, char** words) {
  const char* home = std::getenv("MUSTER_HOME");
  if (count < 4 || home == nullptr || std::strcmp(words[1], "controller") != 0) return;
  stand_in(home, std::stoi(words[3]));
}

struct Supervised {
  Scratch scratch;
  Home home{scratch.path()};

  explicit Supervised(const std::string& lives) { std::ofstream(home.root / "lives") << lives; }
  ~Supervised() { (void)stop_supervised(home); }

  // What `muster controller --detach` ends with.
  int call() const {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("MUSTER_HOME", home.root.c_str(), 1);
      ControllerOptions options;
      options.home = home;
      ::_exit(supervisor_main(options));
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string log() const { return text_of_file(home.root / "log"); }
  std::string own_log() const { return text_of_file(home.log()); }
  // Until the lives have been these; what they were in the end.
  std::string await(const std::string& wanted) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (log() != wanted && std::chrono::steady_clock::now() < deadline) ::usleep(5'000);
    return log();
  }
  bool is_supervised() const { return is_locked(supervisor_lock(home)); }
  void await_end() const {
    for (int i = 0; i < 2'000 && is_supervised(); ++i) ::usleep(5'000);
    CHECK_FALSE(is_supervised());
  }
};

TEST_CASE("who starts a supervisor hears that the controller serves; both end when it is told to") {
  const Supervised one("serves");
  CHECK(one.call() == 0);
  CHECK(one.log() == "life serves\n");
  CHECK(one.is_supervised());
  const auto stopped = stop_supervised(one.home);
  REQUIRE(stopped);
  CHECK(*stopped);
  CHECK(one.log() == "life serves\ntold to end\n");
  CHECK_FALSE(one.is_supervised());
  const auto again = stop_supervised(one.home);
  REQUIRE(again);
  CHECK_FALSE(*again);
}

TEST_CASE("a controller that dies is started again, one that ends in order is not") {
  const Supervised one("dies serves");
  CHECK(one.call() == 0);
  CHECK(one.await("life dies\nlife serves\n") == "life dies\nlife serves\n");
  CHECK_THAT(one.own_log(), ContainsSubstring("the controller ended with 5; it is started again"));
  const Supervised other("ends serves");
  CHECK(other.call() == 0);
  other.await_end();
  CHECK(other.log() == "life ends\n");
}

TEST_CASE("who is told to end does not start another controller, however this one ends") {
  const Supervised one("sulks serves");
  CHECK(one.call() == 0);
  const auto stopped = stop_supervised(one.home);
  REQUIRE(stopped);
  CHECK(*stopped);
  CHECK(one.log() == "life sulks\ntold to end\n");
}

TEST_CASE("the lock of a supervisor names its process and nothing else") {
  const Supervised one("serves");
  std::ofstream(supervisor_lock(one.home)) << "4000000000 of a longer text before\n";
  CHECK(one.call() == 0);
  const std::string text = text_of_file(supervisor_lock(one.home));
  const pid_t pid = std::stoi(text);
  CHECK(text == std::to_string(pid) + "\n");
  CHECK(::kill(pid, 0) == 0);
}

TEST_CASE("a process that an old lock file names is not told to end in place of the supervisor") {
  const Supervised one("serves");
  CHECK(one.call() == 0);
  const std::string right = text_of_file(supervisor_lock(one.home));
  const pid_t other = ::fork();
  if (other == 0) {
    ::pause();
    ::_exit(0);
  }
  std::ofstream(supervisor_lock(one.home)) << other << "\n";
  std::thread writer([&] {  // as the holder does a moment later
    ::usleep(300'000);
    std::ofstream(supervisor_lock(one.home)) << right;
  });
  const auto stopped = stop_supervised(one.home);
  writer.join();
  REQUIRE(stopped);
  CHECK(*stopped);
  CHECK_FALSE(one.is_supervised());
  CHECK(one.log() == "life serves\ntold to end\n");
  CHECK(::waitpid(other, nullptr, WNOHANG) == 0);  // runs on
  ::kill(other, SIGKILL);
  CHECK(::waitpid(other, nullptr, 0) == other);
}

TEST_CASE("a first start that fails is told, and not tried again") {
  const Supervised one("fails serves");
  CHECK(one.call() == 99);
  one.await_end();
  CHECK(one.log() == "life fails\n");
}

TEST_CASE("a controller that finds another one does not count as one that died") {
  const Supervised one("finds serves");
  CHECK(one.call() == 0);
  CHECK(one.log() == "life finds\nlife serves\n");
  CHECK(one.own_log().find("started again") == std::string::npos);
}

TEST_CASE("of two supervisors one serves, and who started the other hears that it does") {
  const Supervised one("serves");
  CHECK(one.call() == 0);
  CHECK(one.call() == 0);
  CHECK(one.log() == "life serves\n");
  CHECK(one.is_supervised());
}

TEST_CASE("a supervisor that cannot have its lock says why, and who started it hears of it") {
  const Supervised one("serves");
  fs::create_directory(supervisor_lock(one.home));
  CHECK(one.call() == 99);
  CHECK_THAT(one.own_log(), ContainsSubstring("supervisor.lock: Is a directory"));
  CHECK(one.log().empty());
  fs::remove(supervisor_lock(one.home));
}

}  // namespace
}  // namespace muster
