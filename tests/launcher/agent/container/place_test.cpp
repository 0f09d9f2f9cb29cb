// The processes of a process namespace, by a holder that is noted.
#include "launcher/agent/container/container.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "launcher/os/read_file.h"
#include "tests/catch.h"
#include "tests/runtime/folder.h"
#include "tests/skip.h"

using namespace muster;

namespace {

// Process 1 of a namespace of its own, which stands for a holder, with a child that hides.
class OwnNamespace {
 public:
  OwnNamespace() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    starter_ = ::fork();
    if (starter_ == 0) {
      if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(1);
      const pid_t first = ::fork();
      if (first == 0) {
        if (::fork() == 0) {
          ::setsid();
          char none[] = "100";
          char program[] = "sleep";
          char* const words[] = {program, none, nullptr};
          char* const nothing[] = {nullptr};
          ::execve("/bin/sleep", words, nothing);
          ::_exit(1);
        }
        ::pause();
        ::_exit(0);
      }
      static_cast<void>(::write(ends[1], &first, sizeof first));
      ::waitpid(first, nullptr, 0);
      ::_exit(0);
    }
    ::close(ends[1]);
    if (::read(ends[0], &holder, sizeof holder) != sizeof holder) holder = 0;
    ::close(ends[0]);
  }
  ~OwnNamespace() { end(); }
  void end() {
    if (holder > 0) ::kill(holder, SIGKILL);
    if (starter_ > 0) ::waitpid(starter_, nullptr, 0);
    holder = starter_ = 0;
  }
  pid_t holder = 0;

 private:
  pid_t starter_ = 0;
};

}  // namespace

TEST_CASE("all of a container's processes are found, by this agent and by the next one") {
  OwnNamespace place;
  if (place.holder == 0) return skip_test("no process namespaces");
  const test::Folder spool;
  auto processes = ContainerProcesses::of(place.holder, spool.path(), "boot");
  REQUIRE(processes);
  for (int i = 0; i < 200 && processes->list().size() < 2; ++i) ::usleep(10'000);
  CHECK(processes->list().size() == 2);
  CHECK(processes->list().contains(place.holder));
  const auto next = ContainerProcesses::noted(spool.path(), "boot");
  CHECK(next.list() == processes->list());
  CHECK(ContainerProcesses::noted(spool.path(), "other boot").list().empty());
  place.end();
  for (int i = 0; i < 200 && !next.list().empty(); ++i) ::usleep(10'000);
  CHECK(next.list().empty());
  CHECK(ContainerProcesses::noted(spool.path(), "boot").list().empty());
}

TEST_CASE(
    "a number that another process has by now is no holder, nor is one of our own namespace") {
  const test::Folder spool;
  CHECK_FALSE(ContainerProcesses::of(::getpid(), spool.path(), "boot"));
  CHECK(ContainerProcesses::noted(spool.path(), "boot").list().empty());
  for (const char* const note : {"boot 1 77", "boot -1 5", "boot 1", "", "boot x y"}) {
    REQUIRE(replace_file(spool / "holder", note, 0600, Durable::in_cache));
    CHECK(ContainerProcesses::noted(spool.path(), "boot").list().empty());
  }
}
