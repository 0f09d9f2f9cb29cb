// A command that resets or reboots: run once, told once it is over, and nothing of it left.
#include "launcher/agent/health/remediation.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "launcher/agent/node/process_scan.h"
#include "launcher/os/child.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

struct Remedies {
  FakeRoot folder;
  std::vector<RemedyRun> told;
  std::vector<std::string> done;
  Remediation runs{[this](const RemedyRun& run) { told.push_back(run); },
                   [this](const RunRemedy& request) { done.push_back(request.id); }};

  static RunRemedy a_request(const std::string& id, const std::string& script,
                             Milliseconds limit = seconds{20}) {
    return {id, RemedyStep::reset, "gpu3", {"sh", "-c", script}, limit};
  }
  void ask(const RunRemedy& request) {
    runs.ask(request, std::nullopt,
             {{"PATH", "/usr/bin:/bin"}, {"HERE", folder.path()}, {"COLOUR", "blue"}});
  }
  pid_t session() const {
    REQUIRE(runs.sessions().size() == 1);
    return *runs.sessions().begin();
  }
  // As the agent does it.
  void reap() {
    const pid_t pid = session();
    int status = 0;
    REQUIRE(soon([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }));
    CHECK(runs.reaped(pid, status));
  }
  template <class Holds>
  static bool soon(const Holds& holds) {
    const auto until = std::chrono::steady_clock::now() + seconds{60};
    while (!holds()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(milliseconds{5});
    }
    return true;
  }
  bool ends_with_polls() {
    return soon([&] {
      runs.poll();
      return !runs.is_running();
    });
  }
};

bool has_processes(pid_t session) {
  for (const ProcessInfo& one : scan_processes()) {
    if (one.session == session && !one.is_dead()) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a remedy that ended is told with its code and its last lines, and again when asked") {
  Remedies one;
  const int code = GENERATE(0, 3);
  RunRemedy request = Remedies::a_request(
      "r1", "echo $COLOUR; for i in 1 2 3 4 5 6 7 8 9; do echo $i; done; echo bad >&2; exit " +
                std::to_string(code));
  CHECK(one.runs.is_news(request));
  one.ask(request);
  CHECK_FALSE(one.runs.is_news(request));
  CHECK(one.runs.is_under_way());
  CHECK(one.runs.is_running());
  one.ask(request);  // it goes on
  one.reap();
  REQUIRE(one.told.size() == 1);
  CHECK(one.told[0].id == "r1");
  CHECK(one.told[0].error.empty());
  CHECK(one.told[0].status.code == code);
  CHECK(one.told[0].lines ==
        std::vector<std::string>{"1", "2", "3", "4", "5", "6", "7", "8", "9", "bad"});
  CHECK(one.done.size() == (code == 0 ? 1u : 0u));
  CHECK_FALSE(one.runs.is_running());
  one.ask(request);
  REQUIRE(one.told.size() == 2);
  CHECK(one.told[1].status.code == code);
  CHECK_FALSE(one.runs.is_under_way());
  CHECK_FALSE(one.runs.reaped(::getpid(), 0));
}

TEST_CASE("a remedy that must not or cannot be begun is told so, and not begun later") {
  Remedies one;
  RunRemedy request = Remedies::a_request("r1", "exit 0");
  std::string why;
  SECTION("it is refused") {
    one.runs.ask(request, "ranks run there", {});
    why = "ranks run there";
  }
  SECTION("there is no time for it") {
    request.limit = Milliseconds{0};
    CHECK_FALSE(one.runs.is_news(request));
    one.ask(request);
    why = "command not started";
  }
  SECTION("it has no command") {
    request.argv.clear();
    one.ask(request);
    why = "no command was given";
  }
  SECTION("there is no such program") {
    request.argv = {"/nowhere/smi"};
    one.ask(request);
    why = "/nowhere/smi";
  }
  one.ask(request);
  REQUIRE(one.told.size() == 2);
  CHECK_THAT(one.told[0].error, ContainsSubstring(why));
  CHECK(one.told[0].status.code == 127);
  CHECK(one.told[1].error == one.told[0].error);
  CHECK(one.done.empty());
  CHECK_FALSE(one.runs.is_running());
}

TEST_CASE("a remedy whose time is over is killed, and told when nothing of it is left") {
  Remedies one;
  one.ask(Remedies::a_request("r1", "echo begun; set -m; sleep 60 & sleep 60", milliseconds{300}));
  const pid_t session = one.session();
  one.runs.poll();
  CHECK(has_processes(session));
  CHECK(one.told.empty());
  int status = 0;
  REQUIRE(Remedies::soon([&] {
    one.runs.poll();
    return ::waitpid(session, &status, WNOHANG) == session;
  }));
  one.runs.reaped(session, status);
  REQUIRE(one.ends_with_polls());
  CHECK_FALSE(has_processes(session));
  REQUIRE(one.told.size() == 1);
  CHECK_THAT(one.told[0].error, ContainsSubstring("its command did not end within"));
  CHECK(one.told[0].status.signal == SIGKILL);
  REQUIRE_FALSE(one.told[0].lines.empty());
  CHECK(one.told[0].lines[0] == "begun");
  CHECK(one.done.empty());
}

TEST_CASE("what a remedy that was killed has started is ended with it, before its end is told") {
  Remedies one;
  one.ask(Remedies::a_request("r1", "echo begun; sleep 60 & kill -SEGV $$"));
  const pid_t session = one.session();
  one.reap();
  CHECK(one.told.empty());
  CHECK(one.runs.is_under_way());
  REQUIRE(one.ends_with_polls());
  CHECK_FALSE(has_processes(session));
  REQUIRE(one.told.size() == 1);
  CHECK(one.told[0].status.signal == SIGSEGV);
  CHECK(one.told[0].error.empty());
  CHECK(one.done.empty());
}

// The command of the test below, in a process of its own: each process of it lives for less than a
// millisecond, so that whoever looks for it in /proc finds the one before.
TEST_CASE("goes on from process to process", "[.child]") {
  const char* folder = std::getenv("MUSTER_TEST_HOPS");
  if (folder == nullptr) return;
  const std::string trace = std::string(folder) + "/trace";
  for (int i = 0; i < 8; ++i) {
    if (::fork() == 0) break;
    if (i == 7) ::raise(SIGKILL);
  }
  for (int hops = 0; hops < 100'000; ++hops) {
    const Fd file(::open(trace.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
    if (::write(file.get(), "x", 1) != 1 || ::fork() != 0) ::_exit(0);
  }
  ::_exit(0);
}

TEST_CASE("what goes from process to process is ended with the group of the remedy that began it") {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // the dead are reaped here, whatever else reaps on this host
  for (int round = 0; round < 5; ++round) {  // one may be met by chance
    Remedies one;
    RunRemedy request = Remedies::a_request("r1", "");
    request.argv = {self_exe(), "goes on from process to process"};
    one.runs.ask(request, std::nullopt, {{"MUSTER_TEST_HOPS", one.folder.path()}});
    const auto hops = [&] {
      std::error_code none;
      const auto size = std::filesystem::file_size(one.folder.below("/trace"), none);
      return none ? std::uintmax_t{0} : size;
    };
    REQUIRE(Remedies::soon([&] { return hops() > 20; }));
    const pid_t group = one.session();
    one.reap();
    const auto seen = hops();
    std::this_thread::sleep_for(milliseconds{50});
    CHECK(hops() == seen);
    CHECK(one.ends_with_polls());
    while (::waitpid(-group, nullptr, WNOHANG) > 0) {
    }
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}
