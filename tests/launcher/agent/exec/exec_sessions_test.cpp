// Commands beside a rank: what they are given, what is told of them, and what of them is killed.
#include "launcher/agent/exec/sessions.h"

#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>

#include "tests/catch.h"
#include "tests/launcher/agent/heard_line.h"

using namespace muster;

namespace {

struct Commands {
  HeardLine heard;
  ExecSessions execs{heard.io, heard.line};

  pid_t start(const std::string& id, const std::string& script) {
    const auto pid = execs.start({id, JobId{"job"}, AttemptId{}, RankId{0}, {"sh", "-c", script}},
                                 {{"PATH", "/usr/bin:/bin"}, {"COLOUR", "blue"}}, "/");
    REQUIRE(pid);
    return *pid;
  }
  std::string& output(const std::string& id) { return heard.controller->exec_output()[id]; }
  // As the agent does it.
  int reap(pid_t pid) {
    int status = 0;
    REQUIRE(heard.turn_until([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }));
    REQUIRE(execs.reaped(pid, status));
    return status;
  }
  // Of the line that it says first.
  pid_t number_said(const std::string& id) {
    REQUIRE(heard.turn_until([&] { return output(id).ends_with('\n'); }));
    pid_t number = 0;
    std::from_chars(output(id).data(), output(id).data() + output(id).size(), number);
    REQUIRE(number > 1);
    return number;
  }
};

}  // namespace

TEST_CASE("a command has its input, environment and directory, and its end comes after its words") {
  Commands one;
  const pid_t pid = one.start("e", "pwd; echo $COLOUR; cat; echo bad >&2; exit 5");
  one.execs.input("e", "typed ");
  one.execs.input("e", "twice\n");
  one.execs.input("e", {});
  one.execs.input("nobody", "lost");
  one.reap(pid);
  const auto ended = one.heard.expect<ExecEnded>();
  CHECK(ended.id == "e");
  CHECK(ended.status.code == 5);
  CHECK(ended.error.empty());
  CHECK(one.output("e") == "/\nblue\ntyped twice\n");
  CHECK(one.output("e!") == "bad\n");
  CHECK(one.heard.is_silent_about<ExecEnded>());
  CHECK_FALSE(one.execs.reaped(pid, 0));
}

TEST_CASE("a command that is refused or cannot be started says why, as a shell would") {
  Commands one;
  one.execs.refuse("e", "ranks run there");
  const auto ended = one.heard.expect<ExecEnded>();
  CHECK(ended.status.code == 127);
  CHECK(ended.error == "ranks run there");
  CHECK_FALSE(one.execs.start({"e", JobId{"job"}, AttemptId{}, RankId{0}, {}}, {}, "/"));
  const auto none = one.execs.start(
      {"e", JobId{"job"}, AttemptId{}, RankId{0}, {"no-such-program"}}, {{"PATH", "/bin"}}, "/");
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message, ContainsSubstring("no-such-program"));
}

TEST_CASE("a command that is stopped is killed with what it has started, and no other is") {
  Commands one;
  const pid_t first = one.start("first", "sleep 60 & echo $!; wait");
  const pid_t second = one.start("second", "sleep 60 & echo $!; wait");
  const pid_t child = one.number_said("first");
  const pid_t other = one.number_said("second");
  one.execs.stop("nobody");
  one.execs.stop("first");
  CHECK(WTERMSIG(one.reap(first)) == SIGKILL);
  CHECK(eventually([&] { return !is_running(child); }));
  CHECK(is_running(second));
  CHECK(is_running(other));
  one.execs.stop_all();
  CHECK(WTERMSIG(one.reap(second)) == SIGKILL);
  CHECK(eventually([&] { return !is_running(other); }));
}

TEST_CASE("the number of a command that has ended is nobody's, though its output is still open") {
  Commands one;
  const pid_t pid = one.start("e", "sleep 60 & echo $!; exit 3");
  const pid_t left = one.number_said("e");
  one.reap(pid);
  one.execs.stop("e");
  one.execs.stop_all();
  CHECK(one.heard.is_silent_about<ExecEnded>());
  const auto ended = one.heard.await<ExecEnded>();  // what holds the pipe is not waited for
  REQUIRE(ended);
  CHECK(ended->status.code == 3);
  CHECK(is_running(left));
  ::kill(left, SIGKILL);
}
