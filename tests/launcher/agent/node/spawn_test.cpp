// How processes are started: which program, with what, and why not.
#include "launcher/agent/node/spawn.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "launcher/agent/node/process_scan.h"
#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace {

struct Spawned {
  FakeRoot folder;
  SpawnRequest request;

  explicit Spawned(const std::string& script) {
    request.argv = {"sh", "-c", script};
    request.environment = {{"PATH", "/usr/bin:/bin"}, {"COLOUR", "blue"}};
    request.directory = folder.path();
  }
  // What it wrote to its output and errors, and how it ended.
  std::pair<std::string, int> run() {
    const Fd out(::open(folder.below("/out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const Fd err(::open(folder.below("/err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    request.output = out.get();
    request.errors = err.get();
    const auto pid = spawn(request);
    REQUIRE(pid);
    CHECK(read_process(*pid).value().session == *pid);
    int status = 0;
    REQUIRE(::waitpid(*pid, &status, 0) == *pid);
    return {text_of_file(folder.below("/out")) + "|" + text_of_file(folder.below("/err")), status};
  }
};

void make_program(const FakeRoot& folder, const std::string& name, mode_t mode) {
  folder.write(name, "#!/bin/sh\n");
  REQUIRE(::chmod(folder.below(name).c_str(), mode) == 0);
}

}  // namespace

TEST_CASE("a program is found in the first directory of the list that has one, or at its path") {
  const FakeRoot folder;
  make_program(folder, "/a/both", 0755);
  make_program(folder, "/b/both", 0755);
  make_program(folder, "/b/only", 0700);
  make_program(folder, "/a/text", 0644);
  std::filesystem::create_directories(folder.below("/a/folder"));
  const std::string a = folder.path() + "/a", b = folder.path() + "/b";
  const std::string list = "/nonexistent:" + a + ":" + b;
  CHECK(find_program("both", list) == a + "/both");
  CHECK(find_program("only", list) == b + "/only");
  CHECK_FALSE(find_program("none", list));
  CHECK_FALSE(find_program("text", list));
  CHECK_FALSE(find_program("folder", list));
  CHECK_FALSE(find_program("", list));
  CHECK_FALSE(find_program("both", ""));
  CHECK(find_program(b + "/both", a) == b + "/both");
  CHECK_FALSE(find_program(a + "/text", list));
  CHECK_FALSE(find_program(a + "/none", list));
  CHECK_FALSE(find_program("sh", "../../../../../../../bin:./bin::bin"));
  CHECK(find_program("both", "./x:./b", folder.path()) == folder.path() + "/./b/both");
  CHECK(find_program("both", ":" + b, a) == a + "/both");
  CHECK(find_program("b/only", "", folder.path()) == "b/only");
  CHECK_FALSE(find_program("a/only", "", folder.path()));
}

TEST_CASE("what the kernel cannot pass on is named, the longest that it can is not") {
  constexpr std::size_t most = 128 << 10;  // with its end
  CHECK(lasting_hindrance({"p", std::string(most - 1, 'x')}, {}).empty());
  CHECK_THAT(lasting_hindrance({"p", std::string(most, 'x')}, {}),
             ContainsSubstring("the command has 131072 bytes"));
  CHECK(lasting_hindrance({"p"}, {{"A", std::string(most - 3, 'x')}}).empty());
  CHECK_THAT(lasting_hindrance({"p"}, {{"A", std::string(most - 2, 'x')}}),
             ContainsSubstring("the environment variable A has 131070 bytes"));
  std::map<std::string, std::string> many;
  for (int i = 0; i < 80; ++i) many["V" + std::to_string(i)] = std::string(100'000, 'x');
  CHECK_THAT(lasting_hindrance({"p"}, many), ContainsSubstring("bytes together"));
  many.erase(std::next(many.begin()), many.end());
  CHECK(lasting_hindrance({"p"}, many).empty());
}

TEST_CASE("a process has what it is given: environment, directory, output, and its own session") {
  Spawned one("pwd; echo $COLOUR$HOME. >&2; cat; exit 3");
  const auto [said, status] = one.run();
  CHECK(said == one.folder.path() + "\n|blue.\n");
  CHECK(WEXITSTATUS(status) == 3);
}

TEST_CASE("a process reads the input that it is given, else none") {
  Spawned one("cat");
  one.folder.write("/in", "typed");
  const Fd in(::open(one.folder.below("/in").c_str(), O_RDONLY | O_CLOEXEC));
  one.request.input = in.get();
  CHECK(one.run().first == "typed|");
}

TEST_CASE("a process has the signals of one that nobody prepared") {
  Spawned one("trap - USR1; kill -USR1 $$; sleep 0.01; exit 3");
  const auto usual = ::signal(SIGUSR1, SIG_IGN);
  const int status = one.run().second;
  ::signal(SIGUSR1, usual);
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("a process that cannot be started is an error with its program and its place") {
  Spawned one("true");
  const auto why = [&] {
    const auto pid = spawn(one.request);
    REQUIRE_FALSE(pid);
    return pid.error().message;
  };
  SECTION("no such program") {
    one.request.argv = {"no-such-program"};
    CHECK(why() == "there is no program 'no-such-program' in PATH");
  }
  SECTION("no such directory") {
    one.request.directory = one.folder.path() + "/absent";
    CHECK_THAT(why(), ContainsSubstring("/absent") && ContainsSubstring("No such file"));
  }
  SECTION("no program at all") {
    make_program(one.folder, "/bin/odd", 0755);
    one.folder.write("/bin/odd", std::string("\x7f" "ELF nonsense"));
    one.request.argv = {one.folder.path() + "/bin/odd"};
    CHECK_THAT(why(), ContainsSubstring("/bin/odd"));
  }
  SECTION("too long") {
    one.request.argv.push_back(std::string(200'000, 'x'));
    CHECK_THAT(why(), ContainsSubstring("put it into a script file"));
  }
}
