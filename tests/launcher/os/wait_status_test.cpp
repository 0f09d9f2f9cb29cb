#include "launcher/os/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/catch.h"

using namespace muster;

namespace {

template <class End>
ExitStatus status_of_child(const End& end) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    end();
    ::_exit(99);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return exit_status_of(status);
}

}  // namespace

TEST_CASE("a child has exited with a code or was killed by a signal") {
  const ExitStatus code = status_of_child([] { ::_exit(7); });
  CHECK(code.code == 7);
  CHECK(code.signal == 0);
  CHECK_FALSE(code.ok());
  const ExitStatus killed = status_of_child([] { ::raise(SIGKILL); });
  CHECK(killed.code == 0);
  CHECK(killed.signal == SIGKILL);
  CHECK_FALSE(killed.core_dumped);
  CHECK(status_of_child([] { ::_exit(0); }).ok());
}
