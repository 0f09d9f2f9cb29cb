// When a session is over: with the last of its processes, or when it takes too long.
#include "launcher/agent/exec/sessions.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/catch.h"

using namespace muster;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// A leader and a child of its session, which outlives it.
class Session {
 public:
  Session() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    leader = ::fork();
    if (leader == 0) {
      ::setsid();
      const pid_t mine = ::fork();
      if (mine != 0 && ::write(ends[1], &mine, sizeof mine) < 0) ::_exit(1);
      while (true) ::pause();
    }
    REQUIRE(::read(ends[0], &child, sizeof child) == sizeof child);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Session() {
    ::kill(-leader, SIGKILL);
    ::waitpid(leader, nullptr, 0);
  }
  void kill_leader() const {
    ::kill(leader, SIGKILL);
    ::waitid(P_PID, static_cast<id_t>(leader), nullptr, WEXITED | WNOWAIT);
  }
  pid_t leader = 0;
  pid_t child = 0;
};

bool soon(EndingSessions& ending) {
  for (int i = 0; i < 400; ++i) {
    if (ending.are_gone()) return true;
    std::this_thread::sleep_for(milliseconds{10});
  }
  return false;
}

}  // namespace

TEST_CASE("a session is gone with the last of its processes") {
  EndingSessions ending(seconds{60});
  CHECK(ending.are_gone());
  const Session session;
  ending.add(session.leader);
  session.kill_leader();
  CHECK_FALSE(ending.are_gone());
  CHECK(ending.all().contains(session.leader));
  ::kill(session.child, SIGKILL);
  CHECK(soon(ending));
  CHECK(ending.all().empty());
}

TEST_CASE("one that does not end is waited for no longer than its limit, and still known") {
  EndingSessions ending(milliseconds{50});
  const Session session;
  ending.add(session.leader);
  std::this_thread::sleep_for(milliseconds{60});
  ending.add(session.leader);  // no longer for being killed twice
  CHECK(ending.are_gone());
  CHECK(ending.all().contains(session.leader));
}
