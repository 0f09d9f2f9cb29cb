// When a child has answered, whoever else holds its pipe.
#include "launcher/agent/child_tasks.h"

#include <signal.h>
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
std::string answer_of(ChildTasks::Work work) {
  boost::asio::io_context io;
  ChildTasks tasks(io);
  std::optional<std::string> said;
  const auto id = tasks.run(std::move(work), Milliseconds{5000}, [&](Result<std::string> answer) {
    said = answer ? *answer : "error: " + answer.error().message;
  });
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
