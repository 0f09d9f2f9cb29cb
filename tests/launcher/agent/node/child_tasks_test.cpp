// When a child has answered, whoever else holds its pipe.
#include "launcher/agent/node/child_tasks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "tests/catch.h"

using namespace muster;
using std::chrono::milliseconds;

namespace {

// As the agent: reaps, and tells.
std::string answer_of(ChildTasks::Work work, ChildTasks::Told on_told = {}) {
  boost::asio::io_context io;
  ChildTasks tasks(io);
  std::optional<std::string> said;
  const auto id = tasks.run(
      std::move(work), Milliseconds{5000},
      [&](Result<std::string> answer) {
        said = answer ? *answer : "error: " + answer.error().message;
      },
      std::move(on_told));
  const pid_t child = tasks.process_of(id);
  CHECK(child > 0);
  while (!said) {
    io.run_for(milliseconds{5});
    io.restart();
    if (::waitpid(child, nullptr, WNOHANG) == child) tasks.reaped(child);
  }
  CHECK(tasks.process_of(id) == 0);
  return *said;
}

// Goes on for longer than the limit.
void start(bool as_another_program) {
  if (::fork() != 0) return;
  for (const int one : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(one);
  if (as_another_program) ::execlp("sleep", "sleep", "8", nullptr);
  ::sleep(8);
  ::_exit(0);
}

}  // namespace

TEST_CASE("a child has answered when it is over, though what it started is not") {
  const std::string large(300'000, 'x');
  for (const bool as_another_program : {true, false}) {
    INFO(as_another_program);
    CHECK(answer_of([&](const ChildTasks::Tell&) {
            start(as_another_program);
            return large;
          }) == large);
  }
  CHECK_THAT(answer_of([](const ChildTasks::Tell&) -> std::string {
               start(true);
               ::_exit(1);
             }),
             ContainsSubstring("killed"));
}

TEST_CASE("what a child is at is told while it works, before its answer") {
  std::vector<std::string> told;
  const auto work = [](const ChildTasks::Tell& tell) {
    tell("the first part");
    std::this_thread::sleep_for(milliseconds{1100});
    tell("the second");
    return std::string("done");
  };
  CHECK(answer_of(work, [&](const std::string& doing) { told.push_back(doing); }) == "done");
  CHECK(told == std::vector<std::string>{"the first part", "the second"});
}

TEST_CASE("a child has the signals of a process that nobody prepared, whatever its agent does") {
  const auto usual = ::signal(SIGUSR1, SIG_IGN);
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR2);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  const std::string said = answer_of([](const ChildTasks::Tell&) {
    sigset_t now;
    ::sigprocmask(SIG_BLOCK, nullptr, &now);
    const bool is_blocked = ::sigismember(&now, SIGUSR2) == 1;
    const bool is_ignored = ::signal(SIGUSR1, SIG_DFL) == SIG_IGN;
    return std::string(is_blocked ? "blocked " : "") + (is_ignored ? "ignored" : "as usual");
  });
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::signal(SIGUSR1, usual);
  CHECK(said == "as usual");
}

TEST_CASE("a child has no descriptor of its agent's, and bears a name of its own") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const int mine = ends[1];
  const std::string said = answer_of([mine](const ChildTasks::Tell&) {
    char name[16] = "";
    ::prctl(PR_GET_NAME, name);
    return std::string(name) + (::fcntl(mine, F_GETFD) < 0 ? "" : " has it");
  });
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(said == "muster-task");
}
