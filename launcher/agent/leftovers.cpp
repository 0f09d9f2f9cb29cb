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
#include "launcher/agent/spawn.h"
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

// In the forked child, which has the agent's descriptors: its sockets and its lock must go.
[[noreturn]] void keep(const RunDirectory& agents, int agents_line) {
  ::setsid();
  reset_signals();
  ::signal(SIGTERM, SIG_IGN);  // a shutdown ends the agent first
  ::prctl(PR_SET_NAME, "muster-keeper");
  const int line = ::dup2(agents_line, STDERR_FILENO + 1);
  close_descriptors_from(STDERR_FILENO + 2);
  char orderly = 0;
  ssize_t got = 0;
  do {
    got = ::read(line, &orderly, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 1) ::_exit(0);
  // Children of the dead agent that had not exec'd yet hold its lock and socket for a moment
  // longer.
  ::poll(nullptr, 0, last_children_ms);
  const auto run = open_run_directory(agents.home, agents.controller, agents.node);
  if (!run) ::_exit(1);
  const auto lock = wait_for_agent_lock(*run);
  if (!lock || !*lock) ::_exit(0);  // another agent is there and does it
  ::_exit(end_leftovers(*run) ? 0 : 1);
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

Status Keeper::ensure() {
  if (pid_) return Done{};
  int line[2];
  if (::pipe2(line, O_CLOEXEC) != 0) return system_error("make a pipe");
  const Fd read_end(line[0]);
  line_ = Fd(line[1]);
  const pid_t child = ::fork();
  if (child == 0) keep(run_, read_end.get());
  if (child < 0) return system_error("start the keeper");
  pid_ = child;
  return Done{};
}

bool Keeper::reaped(pid_t pid) {
  if (pid_ != pid) return false;
  pid_.reset();
  return true;
}

void Keeper::dismiss() {
  if (pid_) static_cast<void>(write_all(line_.get(), "x"));
}

}  // namespace muster
