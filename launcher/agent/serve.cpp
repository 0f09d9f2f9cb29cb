// `muster agent serve`: from a command line to a daemon that listens.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/keeper/keeper.h"
#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/node/log.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/os/fd.h"

namespace muster {

namespace {

constexpr int could_not_start = 1;

int fail(const std::string& message) {
  std::fprintf(stderr, "muster agent: %s\n", message.c_str());
  return could_not_start;
}

// In the daemon; `ready` is where the process that was called waits.
int serve_in_background(const AgentOptions& options, const RunDirectory& run, Fd ready) {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(null.get(), STDOUT_FILENO);  // it belongs to a transport, which must see its end
  const bool has_log = open_log(run.fd.get());
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "muster-agent");
  [[maybe_unused]] const int moved = ::chdir("/");  // hold no file system that is not ours

  HostProcesses processes;
  // The spools of an attempt go only when nothing of it is left: without any there is nothing to
  // look for, and a look reads all of /proc.
  if (!attempts_below(spools_root(run)).empty()) {
    const Status ended = end_orphan_processes(processes, run);
    if (!ended) return fail(ended.error().message);
  }
  boost::asio::io_context io(1);
  auto lease = Lease::create();
  if (!lease) return fail(system_error("make the memory of the lease").message);
  const HostClock clock;
  ForkedKeeper keeper(run, *lease);
  Agent agent(io, run, {processes, clock, keeper, *lease}, options.build_id);
  auto listener = listen_in(run);
  if (!listener) return fail(listener.error().message);
  if (!has_log) ::dup2(null.get(), STDERR_FILENO);  // so far it could still say why not
  log_line("serves " + run.path);
  [[maybe_unused]] const ssize_t told = ::write(ready.get(), "R", 1);
  ready.reset();

  agent.open(std::move(*listener));
  io.run();
  ::unlinkat(run.fd.get(), "agent.sock", 0);
  if (agent.has_left_nothing()) keeper.dismiss();
  return 0;
}

// Closes what came from the caller by accident: a ssh channel must not stay open because an agent
// holds a copy of it. What the agent opened itself closes on exec and is told apart by that.
void close_inherited() {
  std::vector<int> accidents;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    const int fd = static_cast<int>(std::strtol(entry.path().filename().c_str(), nullptr, 10));
    const int flags = ::fcntl(fd, F_GETFD);
    const bool is_ours = fd <= STDERR_FILENO || flags < 0 || (flags & FD_CLOEXEC) != 0;
    if (!is_ours) accidents.push_back(fd);
  }
  for (const int fd : accidents) ::close(fd);
}

}  // namespace

int agent_serve(const AgentOptions& options) {
  const auto run = open_run_directory(options.home, options.controller, NodeId{options.node});
  if (!run) return fail(run.error().message);
  auto lock = wait_for_agent_lock(*run);
  if (!lock) return fail(lock.error().message);
  if (!*lock) return 0;  // there is one already
  auto line = make_pipe();
  if (!line) return fail(system_error("make a pipe").message);
  const pid_t daemon = ::fork();
  if (daemon < 0) return fail(system_error("start the agent").message);
  if (daemon > 0) {
    line->write_end.reset();
    char byte = 0;
    ssize_t got = 0;
    while ((got = ::read(line->read_end.get(), &byte, 1)) < 0 && errno == EINTR) {
    }
    if (got == 1) return 0;
    while (::waitpid(daemon, nullptr, 0) < 0 && errno == EINTR) {
    }
    return could_not_start;
  }
  ::setsid();
  line->read_end.reset();
  close_inherited();
  std::exit(serve_in_background(options, *run, std::move(line->write_end)));
}

}  // namespace muster
