// `muster agent serve`: from a command line to a daemon that listens. `muster agent attach`: the
// far end of a transport, which finds or starts the agent and joins it to the standard streams.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
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

constexpr std::size_t copy_buffer_bytes = 256u << 10;
// One that is leaving may close the door between two tries.
constexpr int starts_limit = 3;

// Bytes on their way from one descriptor to another. Their buffer is not filled beforehand: mostly
// a page of it is ever needed.
class Pump {
 public:
  Pump(int from, int to)
      : from_(from), to_(to), buffer_(std::make_unique_for_overwrite<char[]>(copy_buffer_bytes)) {}

  bool is_over() const { return is_over_; }
  pollfd read_interest() const { return {has_bytes() || is_over_ ? -1 : from_, POLLIN, 0}; }
  pollfd write_interest() const { return {has_bytes() ? to_ : -1, POLLOUT, 0}; }

  void move(bool readable, bool writable) {
    if (!has_bytes() && readable) fill();
    if (has_bytes() && (writable || readable)) drain();
  }

 private:
  bool has_bytes() const { return start_ < end_; }

  void fill() {
    const ssize_t got = ::read(from_, buffer_.get(), copy_buffer_bytes);
    if (got > 0) {
      start_ = 0;
      end_ = static_cast<std::size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      is_over_ = true;
    }
  }

  void drain() {
    const ssize_t put = ::write(to_, buffer_.get() + start_, end_ - start_);
    if (put > 0) {
      start_ += static_cast<std::size_t>(put);
    } else if (errno != EAGAIN && errno != EINTR) {
      is_over_ = true;
    }
  }

  int from_;
  int to_;
  std::unique_ptr<char[]> buffer_;
  std::size_t start_ = 0;
  std::size_t end_ = 0;
  bool is_over_ = false;
};

Result<Fd> reach_agent(const AgentOptions& options) {
  const auto run = open_run_directory(options.home, options.controller, NodeId{options.node});
  if (!run) return run.error();
  for (int starts = 0; starts < starts_limit; ++starts) {
    if (auto stream = connect_to_agent(run->socket_path())) return stream;
    // The daemon is forked from this process: one start of the program does for both.
    static_cast<void>(agent_serve(options));
  }
  auto stream = connect_to_agent(run->socket_path());
  if (stream) return stream;
  return Error{stream.error().message + "; the agent's log is " + run->path +
               "/agent.log on this node"};
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

int copy_both_ways(int socket) {
  ::signal(SIGPIPE, SIG_IGN);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, socket}) {
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  const int larger = 1 << 20;
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &larger, sizeof larger);
  Pump to_agent(STDIN_FILENO, socket);
  Pump from_agent(socket, STDOUT_FILENO);
  while (!to_agent.is_over() && !from_agent.is_over()) {
    // The socket twice, once for each direction; the last notices that nobody reads stdout any
    // more.
    pollfd all[] = {to_agent.read_interest(),
                    to_agent.write_interest(),
                    from_agent.read_interest(),
                    from_agent.write_interest(),
                    {STDOUT_FILENO, 0, 0}};
    if (::poll(all, std::size(all), -1) < 0 && errno != EINTR) break;
    if ((all[4].revents & (POLLERR | POLLNVAL)) != 0) break;
    to_agent.move(all[0].revents != 0, all[1].revents != 0);
    from_agent.move(all[2].revents != 0, all[3].revents != 0);
  }
  return 0;
}

int agent_attach(const AgentOptions& options) {
  constexpr char marker[] = "MUSTER-ATTACHED\n";
  if (::write(STDOUT_FILENO, marker, sizeof marker - 1) != sizeof marker - 1) return 1;
  const auto stream = reach_agent(options);
  if (!stream) {
    std::fprintf(stderr, "muster agent attach: %s\n", stream.error().message.c_str());
    return 1;
  }
  return copy_both_ways(stream->get());
}

}  // namespace muster
