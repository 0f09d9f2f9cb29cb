#include "launcher/agent/leftovers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "launcher/agent/attempt_layout.h"
#include "launcher/agent/attempt_processes.h"
#include "launcher/agent/system_error_text.h"

namespace muster {

namespace {

using SteadyClock = std::chrono::steady_clock;

// After SIGKILL a process ends at once unless the kernel holds it: then no wait helps.
constexpr std::chrono::seconds reap_limit{60};
// Two empty scans in a row: one scan can miss a process that forks while /proc is read.
constexpr int empty_scans_wanted = 2;
// The kernel kills them with their parent; they need one turn on a busy processor to be gone.
constexpr int last_children_ms = 100;
constexpr long scan_pause_ns = 5'000'000;

ProcessMarks marks_of_run(const RunDirectory& run) {
  ProcessMarks marks;
  marks.is_token = [&run](const std::string& token) { return is_token_of_run(run, token); };
  marks.socket_path = run.socket_path();
  marks.spool_prefix = spools_root(run) + "/";
  marks.takes_orphans = false;  // the caller has not started anything yet
  return marks;
}

[[noreturn]] void keep(const RunDirectory& run, int line) {
  ::prctl(PR_SET_NAME, "muster-keeper");
  char orderly = 0;
  ssize_t got = 0;
  do {
    got = ::read(line, &orderly, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 1) ::_exit(0);
  // Children of the dead agent that had not exec'd yet hold its lock and socket for a moment
  // longer.
  ::poll(nullptr, 0, last_children_ms);
  const auto lock = wait_for_agent_lock(run);
  if (!lock || !*lock) ::_exit(0);  // another agent is there and does it
  ::_exit(end_leftovers(run) ? 0 : 1);
}

}  // namespace

Status end_leftovers(const RunDirectory& run) {
  const ProcessMarks marks = marks_of_run(run);
  const auto deadline = SteadyClock::now() + reap_limit;
  for (int empty_scans = 0; empty_scans < empty_scans_wanted;) {
    const auto found = find_attempt_processes(marks);
    if (found.empty()) {
      ++empty_scans;
      continue;
    }
    empty_scans = 0;
    if (SteadyClock::now() > deadline) {
      return Error{"processes of an earlier agent survive SIGKILL: " + describe(found.front()) +
                   " and " + std::to_string(found.size() - 1) + " more; the node needs a reboot"};
    }
    kill_processes(found);
    const timespec pause{0, scan_pause_ns};
    ::nanosleep(&pause, nullptr);
  }
  return Done{};
}

Result<Fd> start_keeper(const RunDirectory& run, int lock_fd, pid_t* keeper) {
  int line[2];
  if (::pipe2(line, O_CLOEXEC) != 0) return system_error("make a pipe");
  Fd read_end(line[0]);
  Fd write_end(line[1]);
  *keeper = ::fork();
  if (*keeper < 0) return system_error("start the keeper");
  if (*keeper > 0) return write_end;
  write_end.reset();
  ::close(lock_fd);
  ::setsid();
  ::signal(SIGTERM, SIG_IGN);  // a shutdown ends the agent first
  keep(run, read_end.get());
}

void dismiss_keeper(Fd& line) {
  [[maybe_unused]] const ssize_t told = ::write(line.get(), "x", 1);
  line.reset();
}

}  // namespace muster
