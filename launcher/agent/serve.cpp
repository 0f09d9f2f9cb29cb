// `muster agent serve`: from a command line to a daemon that listens.
#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/agent_log.h"
#include "launcher/agent/agent_main.h"
#include "launcher/agent/leftovers.h"
#include "launcher/agent/run_directory.h"
#include "launcher/agent/system_error_text.h"

namespace muster {

namespace {

constexpr int could_not_start = 1;

int fail(const std::string& message) {
  std::fprintf(stderr, "muster agent: %s\n", message.c_str());
  return could_not_start;
}

void tell_ready(int fd) {
  [[maybe_unused]] const ssize_t told = ::write(fd, "R", 1);
  ::close(fd);
}

// In the daemon; `ready` is where the process that was called waits.
int serve_in_background(const AgentOptions& options, const RunDirectory& run, int lock, int ready) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  open_log(run.fd.get());
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "muster-agent");
  [[maybe_unused]] const int moved = ::chdir("/");  // hold no file system that is not ours

  if (Status ended = end_leftovers(run); !ended) {
    log_line(ended.error().message);
    return fail(ended.error().message);
  }
  pid_t keeper_pid = 0;
  auto keeper = start_keeper(run, lock, &keeper_pid);
  if (!keeper) return fail(keeper.error().message);
  auto listener = listen_in(run);
  if (!listener) return fail(listener.error().message);
  log_line("serves " + run.path);
  tell_ready(ready);
  if (options.ready_fd >= 0) tell_ready(options.ready_fd);

  boost::asio::io_context io(1);
  Agent agent(io, run, std::move(*listener), keeper_pid, options.build_id);
  const bool left_nothing = agent.run();
  ::unlinkat(run.fd.get(), "agent.sock", 0);
  if (left_nothing) dismiss_keeper(*keeper);
  return 0;
}

// Closes what came from the caller by accident: a ssh channel must not stay open because an agent
// holds a copy of it. What the agent opened itself closes on exec and is told apart by that.
void close_inherited(int ready_fd) {
  DIR* open_ones = ::opendir("/proc/self/fd");
  if (open_ones == nullptr) return;
  std::vector<int> accidents;
  while (const dirent* entry = ::readdir(open_ones)) {
    const int fd = static_cast<int>(std::strtol(entry->d_name, nullptr, 10));
    const int flags = ::fcntl(fd, F_GETFD);
    const bool is_ours = fd <= STDERR_FILENO || fd == ready_fd || fd == ::dirfd(open_ones);
    if (!is_ours && flags >= 0 && (flags & FD_CLOEXEC) == 0) accidents.push_back(fd);
  }
  ::closedir(open_ones);
  for (const int fd : accidents) ::close(fd);
}

}  // namespace

int agent_serve(const AgentOptions& options) {
  const auto run = open_run_directory(options.home, options.controller, NodeId{options.node});
  if (!run) return fail(run.error().message);
  auto lock = wait_for_agent_lock(*run);
  if (!lock) return fail(lock.error().message);
  if (!*lock) return 0;  // there is one already
  int line[2];
  if (::pipe2(line, O_CLOEXEC) != 0) return fail(system_error("make a pipe").message);
  Fd wait_end(line[0]);
  Fd ready_end(line[1]);
  const pid_t first = ::fork();
  if (first < 0) return fail(system_error("start the agent").message);
  if (first > 0) {
    ready_end.reset();
    char byte = 0;
    return ::read(wait_end.get(), &byte, 1) == 1 ? 0 : could_not_start;
  }
  ::setsid();
  const pid_t second = ::fork();
  if (second != 0) ::_exit(second > 0 ? 0 : could_not_start);
  wait_end.reset();
  close_inherited(options.ready_fd);
  if (options.ready_fd >= 0) ::fcntl(options.ready_fd, F_SETFD, FD_CLOEXEC);
  std::exit(serve_in_background(options, *run, (*lock)->get(), ready_end.release()));
}

}  // namespace muster
