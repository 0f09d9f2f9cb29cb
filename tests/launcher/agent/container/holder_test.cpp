// muster-hold and the agent's side of it, without a container around them.
#include "launcher/agent/container/container.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "launcher/hold/protocol.h"
#include "launcher/os/read_file.h"
#include "tests/catch.h"
#include "tests/runtime/folder.h"

using namespace muster;

namespace {

class HeldPlace {
 public:
  HeldPlace() : holder_(std::move(*Holder::prepare(folder.path()))) {
    const std::string socket = folder / "sock";
    pid_ = ::fork();
    if (pid_ == 0) ::_exit(muster::hold(socket.c_str()));
    wait_for([&] { return holder_.has_come(); });
  }
  ~HeldPlace() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  template <class Is>
  void wait_for(Is is) {
    for (int i = 0; i < 500 && !is(); ++i) ::usleep(10'000);
    REQUIRE(is());
  }
  Result<pid_t> start(std::vector<std::string> argv, std::map<std::string, std::string> more = {}) {
    const Fd out(::open((folder / "out").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
    SpawnRequest request;
    request.argv = std::move(argv);
    request.environment = std::move(more);
    request.directory = folder.path();
    request.output = request.errors = out.get();
    return holder_.start(request);
  }
  Holder::Ended next_end() {
    std::vector<Holder::Ended> ended;
    wait_for([&] {
      if (ended.empty()) ended = holder_.read();
      return !ended.empty();
    });
    REQUIRE(ended.size() == 1);
    return ended.front();
  }
  std::string output() const { return text_of_file(folder / "out"); }
  Holder& holder() { return holder_; }
  pid_t pid() const { return pid_; }

  test::Folder folder;

 private:
  Holder holder_;
  pid_t pid_ = 0;
};

}  // namespace

TEST_CASE("a process in the container gets its words, variables and directory byte for byte") {
  HeldPlace place;
  const std::string odd = "a\nb\xff\xfe\x80 \x1b[0m 'q' $HOME";
  const std::string long_word(100'000, 'x');
  const auto pid = place.start(
      {"sh", "-c", R"(printf '%s|%s|%s|' "$1" "$ODD" "$PWD"; exit 7)", "sh", long_word + odd},
      {{"ODD", odd}, {"BASH_FUNC_x%%", "() { :; }"}});
  REQUIRE(pid);
  const Holder::Ended end = place.next_end();
  CHECK(end.pid == *pid);
  CHECK(WEXITSTATUS(end.wait_status) == 7);
  CHECK(place.output() == long_word + odd + "|" + odd + "|" + place.folder.path() + "|");
}

TEST_CASE("the variables of the image stay where nothing else is said") {
  ::setenv("OF_IMAGE", "kept", 1);
  HeldPlace place;
  ::unsetenv("OF_IMAGE");
  REQUIRE(place.start({"sh", "-c", "echo $OF_IMAGE"}));
  place.next_end();
  CHECK(place.output() == "kept\n");
}

TEST_CASE("muster's module comes behind what the image has in PYTHONPATH") {
  ::setenv("PYTHONPATH", "/of/image", 1);
  HeldPlace place;
  ::unsetenv("PYTHONPATH");
  REQUIRE(place.start({"sh", "-c", "echo $PYTHONPATH"}, {{"PYTHONPATH", "/of/muster"}}));
  place.next_end();
  HeldPlace empty;
  REQUIRE(empty.start({"sh", "-c", "echo $PYTHONPATH"}, {{"PYTHONPATH", "/of/muster"}}));
  empty.next_end();
  CHECK(place.output() == "/of/image:/of/muster\n");
  CHECK(empty.output() == "/of/muster\n");
}

TEST_CASE("a PATH that ends in a colon comes before that of the image, another replaces it") {
  const std::string own = ::getenv("PATH");
  HeldPlace place;
  REQUIRE(place.start({"sh", "-c", "echo $PATH"}, {{"PATH", "/of/muster:/b:"}}));
  place.next_end();
  CHECK(place.output() == "/of/muster:/b:" + own + "\n");
  HeldPlace other;
  REQUIRE(other.start({"/bin/sh", "-c", "echo $PATH; echo $TITLE"},
                      {{"PATH", "/of/job"}, {"TITLE", "note:"}}));
  other.next_end();
  CHECK(other.output() == "/of/job\nnote:\n");
}

TEST_CASE("signals of other children end no wait for a process that starts slowly") {
  HeldPlace place;
  ::kill(place.pid(), SIGSTOP);
  ::signal(SIGUSR1, [](int) {});
  const pid_t self = ::getpid();
  const pid_t other = ::fork();
  if (other == 0) {
    for (int i = 0; i < 5; ++i) {
      ::usleep(50'000);
      ::kill(self, SIGUSR1);
    }
    ::kill(place.pid(), SIGCONT);
    ::_exit(0);
  }
  CHECK(place.start({"true"}));
  ::waitpid(other, nullptr, 0);
  ::signal(SIGUSR1, SIG_DFL);
  place.next_end();
}

TEST_CASE("a holder that stands still is waited for once, and what it starts later is killed") {
  HeldPlace place;
  ::kill(place.pid(), SIGSTOP);
  CHECK_THAT(place.start({"sh", "-c", "sleep 1; echo late"}).error().message,
             ContainsSubstring("within 10 s"));
  const auto before = ::time(nullptr);
  for (int i = 0; i < 20; ++i) {
    CHECK_THAT(place.start({"true"}).error().message, ContainsSubstring("does not answer"));
  }
  CHECK(::time(nullptr) - before < 5);
  ::kill(place.pid(), SIGCONT);
  Result<pid_t> started = Error{};
  place.wait_for([&] {
    if (!started) started = place.start({"sh", "-c", "sleep 2; echo now"});
    return static_cast<bool>(started);
  });
  CHECK(place.next_end().pid == *started);
  CHECK(place.output() == "now\n");
}

TEST_CASE("a signal that ended a process is told, and what it left is reaped by the holder") {
  HeldPlace place;
  REQUIRE(place.start({"sh", "-c", "setsid sh -c 'sleep 0.1' & kill -9 $$"}));
  const Holder::Ended end = place.next_end();
  CHECK(WIFSIGNALED(end.wait_status));
  CHECK(WTERMSIG(end.wait_status) == SIGKILL);
  ::usleep(300'000);
  CHECK(place.holder().read().empty());
}

TEST_CASE("a program that is not there is told with the reason, and nothing ends") {
  HeldPlace place;
  const auto none = place.start({"no-such-program"});
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message,
             ContainsSubstring("could not run 'no-such-program' in the container: No such file"));
  REQUIRE(place.start({"true"}));
  CHECK(place.next_end().wait_status == 0);
}

TEST_CASE("no signal but SIGKILL ends the holder, and the agent hears of its end") {
  HeldPlace place;
  CHECK(place.holder().pid() == place.pid());
  ::kill(place.pid(), SIGTERM);
  REQUIRE(place.start({"true"}));
  place.next_end();
  CHECK_FALSE(place.holder().is_gone());
  ::kill(place.pid(), SIGKILL);
  place.wait_for([&] {
    place.holder().read();
    return place.holder().is_gone();
  });
  CHECK_FALSE(place.start({"true"}));
}

TEST_CASE("muster-hold itself is laid beside its socket, and needs no library") {
  test::Folder folder;
  REQUIRE(Holder::prepare(folder.path()));
  const std::string program = text_of_file(folder / "hold");
  CHECK((program == Holder::program()));
  CHECK(
      program.starts_with("\x7f"
                          "ELF"));
  CHECK((program.find(".interp") == program.npos));  // which would name its dynamic linker
}
